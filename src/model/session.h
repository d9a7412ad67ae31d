/* Internals of a session: a view of one lane (lanes.h). */
#ifndef BO_MODEL_SESSION_H
#define BO_MODEL_SESSION_H

#include "lanes.h"

struct bo_session {
    bo_lanes *lanes; /* one lane */
    float *logits;   /* after the last token, if has_logits */
    bool has_logits;
};

/* Sets the states as if the session had read this number of tokens (bo_attention_state_repeat). It must have read some
 * tokens before. Logits are not available until tokens are fed. */
bo_status bo_session_repeat(bo_context *context, bo_session *session, uint64_t tokens);

#endif

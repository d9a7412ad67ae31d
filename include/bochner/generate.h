/** @file
 * Reading and generating text with language models.
 *
 *     static bool show(void *user, const bo_token *token)
 *     {
 *         fwrite(token->text, 1, token->bytes, stdout);
 *         return true;                                           // false: stop
 *     }
 *
 *     bo_generate_desc desc = {.prompt = "To be", .max_tokens = 100, .sampling = {.temperature = 0.8, .seed = 1}};
 *     bo_generate(context, model, &desc, show, NULL);
 *
 * A session reads a sequence of tokens with a state. The size of the state is known in advance. With feature maps it
 * does not grow with the number of tokens read. For more control than bo_generate() offers, feed a session and choose
 * tokens with a sampler:
 *
 *     bo_session_create(context, model, NULL, &session);
 *     bo_sampler_create(context, &(bo_sampler_desc){.temperature = 0.8, .seed = 1}, &sampler);
 *     bo_session_feed(context, session, ids.items, ids.count, logits); // logits of the next token
 *     int32_t next = bo_sampler_next(sampler, logits, vocab);          // then feed `next`, and so on
 *
 * **Ownership.** The caller destroys sessions and samplers. A model must outlive its sessions. **Threads.** A session
 * and a sampler may be used by one thread at a time; threads may share the model.
 */
#ifndef BOCHNER_GENERATE_H
#define BOCHNER_GENERATE_H

#include <bochner/chat.h>
#include <bochner/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/* ---- sessions: reading and decoding with a state ----------------------------------------------------------------- */

/** A session of a language model: a sequence of tokens that is read with a state. */
typedef struct bo_session bo_session;

/** Describes a session. Zero means the default. */
typedef struct bo_session_desc {
    size_t chunk; /**< maximum number of tokens processed at a time (default: 256) */
    /** Softmax attention and other kinds that keep every key: maximum number of tokens of the session (default: the
     * context of the model). */
    size_t capacity;
    uint64_t reserved[4]; /**< must be zero */
} bo_session_desc;

/** Creates a session.
 *
 * @param context   the context
 * @param model     a language model; must outlive the session
 * @param desc      the session; NULL: all defaults
 * @param[out] out  the new session; release it with bo_session_destroy()
 * @return BO_OK; BO_INVALID if the model is not a language model
 */
BO_API bo_status bo_session_create(bo_context *context, const bo_model *model, const bo_session_desc *desc,
                                   bo_session **out);

/** Destroys a session. @param session  the session, or NULL */
BO_API void bo_session_destroy(bo_session *session);

/** Resets a session to the empty sequence.
 *
 * @param context  the context
 * @param session  the session
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_session_reset(bo_context *context, bo_session *session);

/** Returns the number of tokens read so far.
 *
 * @param session  the session
 * @return the number of tokens
 */
BO_API uint64_t bo_session_tokens(const bo_session *session);

/** Reads tokens.
 *
 * The result does not depend on how a sequence is divided into calls, up to rounding. If a call fails while it
 * computes, the session cannot be used until bo_session_reset() or bo_session_load(). A call that runs out of memory
 * reads no tokens.
 *
 * @param context      the context
 * @param session      the session
 * @param ids          the tokens
 * @param count        the number of tokens; 0: only the logits after the last token that was fed are returned, which a
 *     saved state includes
 * @param[out] logits  one number per id of the vocabulary, after the last token, or NULL
 * @return BO_OK; BO_INVALID if an id is not in the vocabulary, if the tokens exceed the capacity
 *     (bo_session_remaining()), if logits are requested but not available, or if an earlier call failed; BO_NUMERIC if
 *     activations are NaN or infinite
 */
BO_API bo_status bo_session_feed(bo_context *context, bo_session *session, const int32_t *ids, size_t count,
                                 float *logits);

/** Reads tokens in several sessions of one model, in batches: the weights are read once for all sessions.
 *
 * Each session is then in the same state as after bo_session_feed() with its tokens, up to rounding. The bits depend on
 * the number of sessions in a batch and on their numbers of tokens, but not on the tokens of other sessions or on the
 * number of threads. A single session gets the bits of bo_session_feed(). Sessions whose attention keeps every key are
 * batched if their capacities are equal; other groups run one after the other.
 *
 * Everything is checked and allocated before any session changes. If a call fails while it computes, the sessions of
 * the call cannot be used until bo_session_reset() or bo_session_load().
 *
 * @param context      the context
 * @param sessions     sessions of the same model, each of them once
 * @param count        the number of sessions
 * @param ids          the tokens of the first session, then those of the second one, …
 * @param tokens       the number of tokens of each session, at least 1; NULL: 1
 * @param[out] logits  `count` rows with one number per id of the vocabulary, after the last token of each session, or
 *     NULL
 * @return as bo_session_feed(); BO_INVALID if sessions belong to different models or if one is given twice
 */
BO_API bo_status bo_sessions_feed(bo_context *context, bo_session *const *sessions, size_t count, const int32_t *ids,
                                  const size_t *tokens, float *logits);

/** Saves the state of a session.
 *
 * The state contains fingerprints of the model (shapes, draws, tokenizer) and of the weights. Computing them reads all
 * weights.
 *
 * @param context  the context
 * @param session  the session
 * @param sink     where to write
 * @return BO_OK; BO_IO if the file cannot be written; BO_INVALID if an earlier call failed; BO_NUMERIC if the numbers
 *     of a mixer without attention overflowed
 */
BO_API bo_status bo_session_save(bo_context *context, const bo_session *session, const bo_sink *sink);

/** Loads a state that bo_session_save() wrote. After a failure the session is unchanged.
 *
 * A state that was saved with another capacity is loaded if its tokens fit.
 *
 * @param context  the context
 * @param session  a session of the same model with the same weights
 * @param source   the state
 * @return BO_OK; BO_IO if the file cannot be read; BO_FORMAT if it is malformed; BO_VERSION if a newer version wrote
 *     it; BO_INVALID if it belongs to another model or to other weights, or if its tokens do not fit
 */
BO_API bo_status bo_session_load(bo_context *context, bo_session *session, const bo_source *source);

/* ---- sampling ---------------------------------------------------------------------------------------------------- */

/** A sampler: chooses the next token from logits. */
typedef struct bo_sampler bo_sampler;

/** Describes a sampler. Zero means the default. */
typedef struct bo_sampler_desc {
    double temperature; /**< divisor of the logits (default: 1) */
    size_t top_k;       /**< choose among the k most likely tokens (default: all) */
    double top_p;       /**< choose among the most likely tokens with total probability p (default: 1) */
    /** Choose among tokens with at least this share of the probability of the most likely one (default: 0). */
    double min_p;
    double repetition_penalty; /**< penalty on the logits of the latest `window` tokens (1909.05858) (default: 1) */
    size_t window;             /**< number of latest tokens that the penalty applies to (default: 64) */
    bool greedy;               /**< always choose the most likely token */
    uint64_t seed;             /**< seed of the random numbers */
    uint64_t drawn;            /**< number of random numbers that were drawn before, to continue an earlier text */
    uint64_t reserved[3];      /**< must be zero */
} bo_sampler_desc;

/** Creates a sampler.
 *
 * @param context   the context
 * @param desc      the sampler, copied; NULL: all defaults
 * @param[out] out  the new sampler; release it with bo_sampler_destroy()
 * @return BO_OK; BO_INVALID if a field is out of range: a temperature below 0, a top_p or min_p outside [0, 1], …
 */
BO_API bo_status bo_sampler_create(bo_context *context, const bo_sampler_desc *desc, bo_sampler **out);

/** Destroys a sampler. @param sampler  the sampler, or NULL */
BO_API void bo_sampler_destroy(bo_sampler *sampler);

/** Chooses the next token and remembers it for the repetition penalty.
 *
 * @param sampler         the sampler
 * @param[in,out] logits  `vocab` numbers; overwritten
 * @param vocab           the size of the vocabulary, at least 1
 * @return the id of the token; 0 if every logit is NaN or -INFINITY
 */
BO_API int32_t bo_sampler_next(bo_sampler *sampler, float *logits, size_t vocab);

/* ---- generation -------------------------------------------------------------------------------------------------- */

/** Why a text ends. Values are fixed. */
typedef enum bo_generate_end {
    BO_GENERATE_CONTINUES = 0, /**< more tokens follow */
    BO_GENERATE_END_TOKEN = 1, /**< an end token was chosen */
    BO_GENERATE_STOP_TEXT = 2, /**< the text ends before a stop text */
    BO_GENERATE_LENGTH = 3,    /**< the requested number of tokens was chosen */
    BO_GENERATE_CAPACITY = 4,  /**< the session cannot read another token */
    BO_GENERATE_CANCELED = 5,  /**< a callback returned false */
} bo_generate_end;

/** A token that was chosen, and the text that it completes. */
typedef struct bo_token {
    const char *text;       /**< valid UTF-8 without a NUL at the end, only valid during the call; never NULL */
    size_t bytes;           /**< number of bytes of `text`; 0 if the token completes no character */
    int32_t id;             /**< the token, also an end token; -1: none, in the last call of a text that was canceled */
    bo_generate_end end;    /**< why the text ends with this token */
    double log_probability; /**< log p of the token, before temperature and penalties; NAN unless requested */
    size_t index;           /**< number of tokens that were chosen before */
    size_t prompt_tokens;   /**< number of tokens of the prompt */
    uint64_t drawn;         /**< number of random numbers drawn so far (bo_sampler_desc) */
    uint64_t reserved[4];   /**< zero */
} bo_token;

/** Receives a token.
 *
 * @param user   the pointer that was passed to bo_generate()
 * @param token  the token; only valid during the call
 * @return false to cancel
 */
typedef bool (*bo_token_fn)(void *user, const bo_token *token);

/** Describes a text to generate. Zero means the default. At most one of `prompt`, `messages` and `ids` is set. Without
 * any of them, a session continues its text, and a new text starts with the start token. */
typedef struct bo_generate_desc {
    const char *prompt;              /**< the text to continue; texts of special tokens become these tokens; or NULL */
    size_t prompt_bytes;             /**< number of bytes of `prompt` (default: up to its NUL) */
    const bo_chat_message *messages; /**< a conversation to reply to; or NULL */
    size_t message_count;            /**< number of messages */
    const bo_chat_template *chat_template; /**< the template for `messages` (default: the model's) */
    const char *chat_variables;            /**< `variables` of bo_chat_options; or NULL */
    const int32_t *ids;                    /**< tokens to continue; or NULL */
    size_t id_count;                       /**< number of tokens in `ids` */
    size_t max_tokens;                     /**< maximum number of tokens to choose (default: 256) */
    /** The choice of tokens. `drawn` is not used: random numbers are indexed by the number of tokens read, so that a
     * session continues a text with the random numbers of one long text. */
    bo_sampler_desc sampling;
    const char *const *stops; /**< texts to stop before, not empty; or NULL */
    size_t stop_count;        /**< number of stop texts */
    /** A session of the model. It reads the prompt, after the tokens read so far, and each token except an end token.
     * It can be used afterwards, also after a cancellation. NULL: a temporary session. */
    bo_session *session;
    size_t context;      /**< maximum tokens of the sequence, with the prompt (default: the capacity of the session) */
    bo_sampler *sampler; /**< a sampler in its current state, instead of `sampling`; it does not remember the prompt */
    const int32_t *ends; /**< further end tokens, besides bo_model_report(); or NULL */
    size_t end_count;    /**< number of tokens in `ends` */
    bool ignore_end;     /**< no token ends the text */
    bool log_probabilities; /**< compute `log_probability` of bo_token */
    bool keep_bytes;        /**< pass bytes that are not UTF-8 as they are */
    bool leave_last;        /**< `session` does not read the last token */
    uint64_t reserved[4];   /**< must be zero */
} bo_generate_desc;

/** Continues a text, and passes each token to a callback as soon as it is chosen.
 *
 * The concatenated texts of all calls are the text of the tokens. Each text has complete UTF-8 characters. A possible
 * start of a stop text is held back until it is decided. Bytes that are not UTF-8 become the replacement character
 * U+FFFD. A model without a tokenizer continues `ids`; the texts are empty then.
 *
 * The callback is called once per token. `end` of the last call is the reason for the end of the text. If a callback
 * returns false earlier, one more call follows without a token and with the text that was held back. The progress
 * callback of the context (base.h), which is called while a long prompt is read, can also cancel.
 *
 * The tokens are bit-identical to a loop of bo_session_feed() and bo_sampler_next() that reads a prompt in pieces of
 * 4096 tokens. The sampler remembers the tokens of the prompt.
 *
 * @param context   the context
 * @param model     a language model
 * @param desc      what to generate
 * @param callback  receives the tokens; or NULL, for a session that continues
 * @param user      passed to the callback; may be NULL
 * @return BO_OK; BO_CANCELED if a callback returned false; BO_INVALID if the model has another task, if it has no
 *     tokenizer and text or stop texts are given, if the session belongs to another model or is too small for the
 *     prompt, or if a field is out of range; BO_NUMERIC if logits are not finite; errors of bo_chat_template_create(),
 *     bo_chat_encode() and bo_tokenizer_encode()
 */
BO_API bo_status bo_generate(bo_context *context, const bo_model *model, const bo_generate_desc *desc,
                             bo_token_fn callback, void *user);

/* ==== Advanced ==================================================================================================== */

/* ---- sessions: sizes, scores and states -------------------------------------------------------------------------- */

/** Computes the size of a session before it is created.
 *
 * @param context           the context
 * @param model             a language model; or a translation model, for the state of a single hypothesis
 * @param desc              the session; NULL: all defaults
 * @param[out] state_bytes  bytes of the state, which is what bo_session_save() writes, or NULL
 * @param[out] all_bytes    bytes of everything that the session needs, or NULL
 * @return BO_OK; BO_INVALID if the model is not a language model
 */
BO_API bo_status bo_session_estimate(bo_context *context, const bo_model *model, const bo_session_desc *desc,
                                     size_t *state_bytes, size_t *all_bytes);

/** Returns the number of tokens that can still be read. It is limited by the context for learned positions and for
 * matrices along tokens, by the capacity of a KV cache, and by 2^31 - 1 positions if the model has positions.
 *
 * @param session  the session
 * @return the number of tokens
 */
BO_API uint64_t bo_session_remaining(const bo_session *session);

/** Tokens that a session reads, and one of the results for each of them. */
typedef struct bo_session_reading {
    const int32_t *ids;     /**< the tokens */
    size_t count;           /**< number of tokens; 0: nothing is done */
    float *logits;          /**< receives `count` rows with one number per id of the vocabulary; or NULL */
    float *hidden;          /**< receives `count` rows with `width` numbers (bo_model_desc); or NULL */
    float *losses;          /**< receives `count` numbers; or NULL */
    const int32_t *targets; /**< `losses`: the next token after each of them; negative: not scored */
    uint64_t reserved[4];   /**< must be zero */
} bo_session_reading;

/** Reads tokens as bo_session_feed() and returns a result for each of them: logits, the last hidden state or the loss.
 *
 * The hidden state is the residual stream after the final norm; the mean over the tokens of a text is an embedding of
 * the text. The loss is -log p(target) in nats, and 0 for targets that are not scored. After hidden states or losses,
 * logits are not available until tokens are fed.
 *
 * @param context  the context
 * @param session  the session
 * @param reading  the tokens, and exactly one of `logits`, `hidden` and `losses` unless there are none
 * @return as bo_session_feed()
 */
BO_API bo_status bo_session_read(bo_context *context, bo_session *session, const bo_session_reading *reading);

/** What it costs to decode a token after a context of some length. */
typedef struct bo_session_cost {
    size_t tokens; /**< length of the context, with the decoded token */
    /** Bytes of the state of a session with this capacity (bo_session_estimate()); 0: the model cannot read this
     * many tokens. */
    size_t state_bytes;
    /** seconds per token, the median of several; NAN: the model cannot read this many tokens, or the state does not fit
     * into memory */
    double seconds;
    uint64_t reserved[4]; /**< must be zero */
} bo_session_cost;

/* ---- sampling ---------------------------------------------------------------------------------------------------- */

/** Remembers a token that the sampler did not choose, such as one of the prompt, for the repetition penalty.
 *
 * @param sampler  the sampler
 * @param id       the token
 */
BO_API void bo_sampler_remember(bo_sampler *sampler, int32_t id);

/* ---- texts written by a model ------------------------------------------------------------------------------------ */

/** The default separator of the documents of bo_model_compose(). */
#define BO_COMPOSE_SEPARATOR "\n<|endoftext|>\n"

/** Describes texts that a model writes. `tokens` has no default. */
typedef struct bo_compose_desc {
    uint64_t tokens; /**< number of tokens; the last document is complete, so that there may be more */
    /** Maximum tokens of a document, with the special tokens before it, at least one more than these (default: the
     * context of the model). */
    size_t longest;
    size_t lanes;            /**< maximum number of documents generated at the same time (default: 32) */
    bo_sampler_desc sampler; /**< the choice of tokens; its seed and the number of a document determine the document */
    const char *separator;   /**< follows every document (default: BO_COMPOSE_SEPARATOR); not empty */
    uint64_t first;          /**< number of the first document; `next` of an earlier result continues that one */
    uint64_t reserved[4];    /**< must be zero */
} bo_compose_desc;

/** Texts that a model wrote. */
typedef struct bo_composition {
    uint64_t documents;       /**< documents in the file */
    uint64_t tokens;          /**< tokens that were chosen for them, with end tokens */
    uint64_t bytes;           /**< bytes of the file */
    uint64_t cut;             /**< documents that ended because they were as long as a document may be */
    uint64_t empty;           /**< documents without text; they are not in the file */
    uint64_t next;            /**< number of the document after the last one */
    double seconds;           /**< time taken */
    double tokens_per_second; /**< throughput */
    uint64_t reserved[4];     /**< must be zero */
} bo_composition;

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Reads the number of tokens of a saved state, to choose the capacity of the session that loads it.
 *
 * @param context      the context
 * @param source       the state
 * @param[out] tokens  the number of tokens
 * @return BO_OK; BO_IO if the file cannot be read; BO_FORMAT if it is not the state of a session; BO_VERSION if it was
 *     made by a newer version
 */
BO_API bo_status bo_session_peek(bo_context *context, const bo_source *source, uint64_t *tokens);

/** Measures the cost of decoding one token at a time after long contexts, without reading these contexts.
 *
 * A few hundred tokens are read, and attention that keeps keys repeats their keys and values up to the length. Time and
 * memory are the same as with a real context. The logits are not. Lengths beyond the learned positions of the model,
 * and states that with the weights would exceed three quarters of the memory of the process (bo_context_memory()), are
 * reported as not available, without an error and without allocations.
 *
 * @param context    the context
 * @param model      a language model
 * @param lengths    the lengths of the context, with the decoded token, each at least 1
 * @param count      the number of lengths
 * @param[out] out   `count` results
 * @return BO_OK; BO_INVALID if the model is not a language model or if a length is 0
 */
BO_API bo_status bo_session_measure(bo_context *context, const bo_model *model, const size_t *lengths, size_t count,
                                    bo_session_cost *out);

/** Lets a language model write documents into a text file.
 *
 * A document starts with an empty state and with the tokens that the template of the tokenizer prepends to a text. If
 * there are none, it starts with the token that starts or ends a text, or with a newline. These tokens are not written.
 * Tokens are chosen by the sampler until the document ends: with an end token (bo_model_report()), with any other
 * special token, or at the maximum length. Text that would be read as a special token or as the separator is omitted,
 * together with the rest of its document. The file is read back by a corpus with the same `separator` (bo_corpus_desc).
 *
 * The file is replaced atomically at the end. Its bytes do not depend on the number of threads. Each document has a
 * separate random stream, and documents are in the order of their numbers, so that another number of lanes changes a
 * document only through rounding errors of the logits.
 *
 * @param context    the context
 * @param model      a language model with a tokenizer
 * @param desc       the texts
 * @param path       the file; its name must not be that of a file of JSON lines
 * @param[out] out   what was written, or NULL
 * @return BO_OK; BO_INVALID if the model has another task or no tokenizer, if a field is out of range, or if the model
 *     wrote only empty documents; BO_MEMORY if the states of the lanes do not fit into memory; BO_IO if the file cannot
 *     be written; BO_CANCELED
 */
BO_API bo_status bo_model_compose(bo_context *context, const bo_model *model, const bo_compose_desc *desc,
                                  const char *path, bo_composition *out);

#endif

#ifdef __cplusplus
}
#endif
#endif

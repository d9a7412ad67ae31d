/* Reports inputs longer than the training context of a model. */
#ifndef CLI_MODEL_EXTRAPOLATION_H
#define CLI_MODEL_EXTRAPOLATION_H

#include "../common/cli.h"

/* Default limit of the context. Some models are trained with 131,072 or more tokens, whose keys need gigabytes. */
#define CLI_DEFAULT_MAX_CONTEXT 8192
#define CLI_DIGITS_OF(number)   #number
#define CLI_DIGITS(number)      CLI_DIGITS_OF(number) /* for the help */

/* Prints nothing if the tokens fit into the training context, or if longer inputs are refused. Otherwise prints a
 * warning if the loss is known to increase (attention that keeps all keys, or absolute positions), and a report line
 * for other models with positions. Returns true if something was printed. */
bool cli_report_extrapolation(cli_session *session, const bo_model *model, uint64_t tokens);

#endif

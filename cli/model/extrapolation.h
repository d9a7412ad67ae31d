/* Reports that a model reads more tokens than it was trained with. */
#ifndef CLI_MODEL_EXTRAPOLATION_H
#define CLI_MODEL_EXTRAPOLATION_H

#include "../common/cli.h"

/* Default limit of the context. Some models are trained with 131,072 tokens and more, whose keys take gigabytes. */
#define CLI_DEFAULT_MAX_CONTEXT 8192
#define CLI_DIGITS_OF(number)   #number
#define CLI_DIGITS(number)      CLI_DIGITS_OF(number) /* for the help */

/* Prints nothing if the tokens are within the context of training, or if more are refused. Otherwise it prints a
 * warning if the loss is known to suffer (attention that keeps all keys, or absolute positions), and a line of the
 * report for other models with positions. Returns true if something was printed. */
bool cli_report_extrapolation(cli_session *session, const bo_model *model, uint64_t tokens);

#endif

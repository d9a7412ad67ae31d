/* The library's writer of JSON under the program's names. */
#ifndef CLI_COMMON_JSON_H
#define CLI_COMMON_JSON_H

#include <bochner/json.h>

typedef bo_json cli_json;
#define cli_json_object bo_json_object
#define cli_json_array  bo_json_array
#define cli_json_end    bo_json_end
#define cli_json_text   bo_json_add_text
#define cli_json_number bo_json_add_number
#define cli_json_count  bo_json_add_count
#define cli_json_flag   bo_json_add_flag

#endif

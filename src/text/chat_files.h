/* Chat templates of models whose files are in memory. */
#ifndef BO_TEXT_CHAT_FILES_H
#define BO_TEXT_CHAT_FILES_H

#include <bochner/chat.h>

/* Returns the text of a file of the model, such as "tokenizer_config.json"; NULL: there is none. */
typedef const char *(*bo_chat_files_find)(const void *files, const char *name);

/* The template and the special tokens of these files; BO_INVALID if they have no template. */
bo_status bo_chat_template_find(bo_context *context, bo_chat_files_find find, const void *files,
                                bo_chat_template **out);

#endif

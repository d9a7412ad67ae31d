/* Which task a descriptor names. */
#include "task.h"

bo_status bo_train_task_create(bo_context *context, const bo_trainer_desc *desc, bo_train_task **out)
{
    *out = NULL;
    return desc->network ? bo_train_network(context, desc, out)
           : desc->texts ? bo_train_texts(context, desc, out)
                         : bo_train_language(context, desc, out);
}

void bo_train_task_destroy(bo_train_task *task)
{
    if (!task) return;
    bo_train_thaw(task);
    task->methods->close(task);
    bo_free(task);
}

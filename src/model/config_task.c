/* The task in config.json. Classes are stored as in Hugging Face's files, in "id2label" and "label2id". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "enums.h"
#include "config.h"

#define COUNT(fields) (sizeof fields / sizeof *fields)

BO_FIELD_NAMES(bo_model_task, model_task)
BO_FIELD_NAMES(bo_pooling, pooling)
BO_FIELD_NAMES(bo_cross, cross)

static const bo_field task_fields[] = {BO_FIELD_ENUM(bo_model_desc, "task", task, model_task)};
static const bo_field label_fields[] = {BO_FIELD_ENUM(bo_model_desc, "pooling", pooling, pooling),
                                        BO_FIELD_PLAIN(bo_model_desc, "forward", BOOL, forward)};
static const bo_field translate_fields[] = {BO_FIELD_PLAIN(bo_model_desc, "encoder_layers", SIZE, encoder_layers),
                                            BO_FIELD_ENUM(bo_model_desc, "cross", cross, cross)};

static bool labels(bo_model_task task)
{
    return task == BO_MODEL_TASK_CLASSIFY || task == BO_MODEL_TASK_MATCH;
}

const char *bo_config_architecture(bo_model_task task)
{
    static const char *const names[BO_MODEL_TASK_COUNT] = {"BochnerForCausalLM", "BochnerForSequenceClassification",
                                                           "BochnerForTextMatching", "BochnerForTranslation",
                                                           "BochnerForPrediction"};
    return names[task];
}

/* ---- writing a task ---------------------------------------------------------------------------------------------- */

/* Writes a member "key": value; one of the two is the label, the other its number. */
static void write_class(bo_json_text *text, size_t index, const char *label, bool by_label)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", index);
    bo_json_raw(text, index ? ",\n    " : "\n    ");
    bo_json_string(text, by_label ? label : number);
    bo_json_raw(text, ": ");
    if (by_label)
        bo_json_whole(text, index);
    else
        bo_json_string(text, label);
}

static void write_labels(bo_json_text *text, const bo_model_desc *desc)
{
    for (int by_label = 0; by_label < 2; by_label++) {
        bo_json_raw(text, by_label ? ",\n  \"label2id\": {" : ",\n  \"id2label\": {");
        for (size_t i = 0; i < desc->classes; i++) write_class(text, i, desc->labels[i], by_label);
        bo_json_raw(text, "\n  }");
    }
}

static void write_fields(bo_json_text *text, const bo_field *fields, size_t count, const bo_model_desc *desc)
{
    bo_json_raw(text, ",");
    bo_fields_write(text, fields, count, desc, "  ");
}

static bool lists(const bo_field *fields, size_t count, const char *member)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(member, fields[i].name) == 0) return true;
    return false;
}

void bo_config_task_known(bo_known *known)
{
    bo_known_add_fields(known, task_fields, COUNT(task_fields));
    bo_known_add_fields(known, label_fields, COUNT(label_fields));
    bo_known_add_fields(known, translate_fields, COUNT(translate_fields));
    bo_known_add(known, "id2label");
    bo_known_add(known, "label2id");
    bo_known_add(known, "encoder_blocks");
}

const char *bo_config_task_other(const char *member, bo_model_task task)
{
    if (!labels(task) && (lists(label_fields, COUNT(label_fields), member) || strcmp(member, "id2label") == 0 ||
                          strcmp(member, "label2id") == 0))
        return "classify or match";
    if (task != BO_MODEL_TASK_TRANSLATE &&
        (lists(translate_fields, COUNT(translate_fields), member) || strcmp(member, "encoder_blocks") == 0))
        return "translate";
    return NULL;
}

void bo_config_task_write(bo_json_text *text, const bo_model_desc *desc)
{
    if (desc->task == BO_MODEL_TASK_LANGUAGE) return;
    write_fields(text, task_fields, COUNT(task_fields), desc);
    if (desc->task == BO_MODEL_TASK_TRANSLATE) write_fields(text, translate_fields, COUNT(translate_fields), desc);
    if (!labels(desc->task)) return;
    write_fields(text, label_fields, COUNT(label_fields), desc);
    write_labels(text, desc);
}

/* ---- reading a task ---------------------------------------------------------------------------------------------- */

/* Reads one member of "id2label". Members may be in any order, each number once. */
static bo_status read_label(bo_context *context, const char *where, const bo_json *item, bo_model_desc *out)
{
    const char *label = bo_json_text_or_null(item), *key = item->key;
    const bool whole = *key && strlen(key) <= 9 && strspn(key, "0123456789") == strlen(key);
    const size_t index = whole ? strtoul(key, NULL, 10) : SIZE_MAX;
    const char **names = (const char **)(uintptr_t)out->labels;
    if (index >= out->classes || names[index])
        return bo_fail(context, BO_FORMAT, "%s: \"id2label\" should number its %zu classes from 0, found \"%.60s\"%s",
                       where, out->classes, key, index < out->classes ? " twice" : "");
    if (!label || !*label) return bo_fail(context, BO_FORMAT, "%s: \"id2label\": \"%s\" should be a label", where, key);
    names[index] = bo_strdup(context, label);
    return names[index] ? BO_OK : BO_MEMORY;
}

/* Checks that "label2id", if present, is the inverse of "id2label". */
static bo_status check_numbers(bo_context *context, const char *where, const bo_json *numbers, const bo_model_desc *out)
{
    if (!numbers) return BO_OK;
    if (!bo_json_is(numbers, BO_JSON_OBJECT) || (size_t)bo_json_count(numbers) != out->classes)
        return bo_fail(context, BO_FORMAT, "%s: \"label2id\" should be an object with the %zu labels of \"id2label\"",
                       where, out->classes);
    for (const bo_json *item = numbers->child; item; item = item->next) {
        size_t index = 0;
        if (!bo_json_size(item, &index) || index >= out->classes || strcmp(item->key, out->labels[index]) != 0)
            return bo_fail(context, BO_FORMAT, "%s: \"label2id\": \"%.60s\" contradicts \"id2label\"", where,
                           item->key);
    }
    return BO_OK;
}

static bo_status read_labels(bo_context *context, const char *where, const bo_json *json, bo_model_desc *out)
{
    const bo_json *items = bo_json_member(json, "id2label");
    if (!bo_json_is(items, BO_JSON_OBJECT) || !items->child)
        return bo_fail(context, BO_FORMAT, "%s: \"id2label\" should be an object with the label of each class", where);
    out->classes = (size_t)bo_json_count(items);
    const char **names = bo_alloc(context, out->classes, sizeof *names, "labels");
    if (!names) return BO_MEMORY;
    out->labels = names;
    for (const bo_json *item = items->child; item; item = item->next) BO_TRY(read_label(context, where, item, out));
    return check_numbers(context, where, bo_json_member(json, "label2id"), out);
}

bo_status bo_config_task_read(bo_context *context, const char *where, const bo_json *json, bool classes_follow,
                              bo_model_desc *out)
{
    BO_TRY(bo_fields_read(context, where, task_fields, COUNT(task_fields), json, out));
    if (out->task == BO_MODEL_TASK_TRANSLATE)
        return bo_fields_read(context, where, translate_fields, COUNT(translate_fields), json, out);
    if (!labels(out->task)) return BO_OK;
    BO_TRY(bo_fields_read(context, where, label_fields, COUNT(label_fields), json, out));
    if (classes_follow && !bo_json_member(json, "id2label")) return BO_OK;
    return read_labels(context, where, json, out);
}

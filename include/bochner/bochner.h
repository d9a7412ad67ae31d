/* Bochner: all of it. Each header is the manual of its module. */
#ifndef BOCHNER_H
#define BOCHNER_H

#include <bochner/base.h>
#include <bochner/data.h>
#include <bochner/features.h>
#include <bochner/machines.h>

#endif

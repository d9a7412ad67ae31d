/* Time that a thread was given, whatever else the machine does meanwhile: for ratios measured side by side. */
#ifndef BO_LAB_TOOLS_CLOCK_H
#define BO_LAB_TOOLS_CLOCK_H

double lab_thread_seconds(void); /* of the calling thread */

#endif

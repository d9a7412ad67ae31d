/* CPU time of a thread, which excludes other load on the host. Used for ratios of alternating measurements. */
#ifndef BO_LAB_TOOLS_CLOCK_H
#define BO_LAB_TOOLS_CLOCK_H

double lab_thread_seconds(void); /* of the calling thread */

#endif

/* Like test_power_loss.c, with every single operation that survives or is lost, and many random subsets. */
#define EACH_OPERATION true
#define SUBSETS        16
#include "test_power_loss.c"

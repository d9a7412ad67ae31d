/* Graphs and the layers on them, recorded on a tape. */
#ifndef BO_LAB_ARCHITECTURES_NETS_H
#define BO_LAB_ARCHITECTURES_NETS_H

#include "../experiment.h"

enum { LAB_NET_NODES = 48, LAB_NET_EDGES = LAB_NET_NODES * LAB_NET_NODES, LAB_NET_HIDDEN = 16 };

/* Node i has the neighbors neighbors[first[i]] … neighbors[first[i + 1] - 1]. At most LAB_NET_NODES nodes. */
typedef struct lab_net {
    size_t nodes;
    int32_t first[LAB_NET_NODES + 1], neighbors[LAB_NET_EDGES];
} lab_net;

/* sees[i nodes + j]: node j is a neighbor of node i. */
void lab_net_make(size_t nodes, const bool *sees, lab_net *out);
/* Each node has each other node as a neighbor with this probability. */
void lab_net_draw(bo_rng *rng, size_t nodes, double chance, bool *sees);

typedef enum lab_layers_kind {
    LAB_AGGREGATES,
    LAB_MESSAGES, /* s + W₁ aggregate(tanh(W₂ s)); the layer draws the weights; columns <= LAB_NET_HIDDEN */
    LAB_READOUT,  /* the mean over all nodes after MESSAGES */
    LAB_RECURRENT /* a recurrent layer that reads the nodes in numerical order */
} lab_layers_kind;

typedef struct lab_layers {
    lab_layers_kind kind;
    bo_aggregate_kind aggregate;
    size_t depth, columns;
    bool tanh; /* before the first layer */
} lab_layers;

/* Computes y of every node (READOUT: of the graph) from x of every node: nodes x columns. */
bo_status lab_net_apply(lab_run *run, const lab_net *net, const lab_layers *layers, const float *x, float *y);

#endif

// An insertion into an empty tree finds no root and makes its node the root. Two threads do
// so at once and one of the elements is gone.

#include <cstdio>
#include <mutex>
#include <thread>

struct Node {
    int key;
    Node *left = nullptr;
    Node *right = nullptr;
};

static Node *root;
static int compared;

__attribute__((noinline)) static Node **descend(Node *node, int key)
{
    for (;;) {
        compared++;
        Node **side = key < node->key ? &node->left : &node->right;
        if (!*side)
            return side;
        node = *side;
    }
}

__attribute__((noinline)) static void insert(Node *node)
{
    Node *top = root; //~ guilty
    Node **place = top ? descend(top, node->key) : &root;
    *place = node; //~ guilty
}

static int count(const Node *node)
{
    return node ? 1 + count(node->left) + count(node->right) : 0;
}

int main()
{
    Node a{4}, b{2};
    std::thread first([&] { insert(&a); });
    std::thread second([&] { insert(&b); });
    first.join();
    second.join();
    if (count(root) != 2) {
        std::fprintf(stderr, "tree holds %d of 2 elements\n", count(root));
        return 1;
    }
    std::puts("2 elements in the tree");
    return 0;
}

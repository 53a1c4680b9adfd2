// Every method of the list is synchronised. Adding it up asks for the size and then gets each
// element; an element that is removed in between makes the last get throw.

#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

struct List {
    std::vector<int> items{1, 2, 3};
    std::recursive_mutex lock;

    __attribute__((noinline)) size_t size()
    {
        std::lock_guard<std::recursive_mutex> hold(lock);
        return items.size(); //~ guilty
    }
    __attribute__((noinline)) int get(size_t i)
    {
        std::lock_guard<std::recursive_mutex> hold(lock);
        return items.at(i); //~ guilty
    }
    __attribute__((noinline)) void remove_last()
    {
        std::lock_guard<std::recursive_mutex> hold(lock);
        items.pop_back(); //~ guilty
    }
};

static List list;
static int total;

static void sum_list()
{
    size_t count = list.size();
    for (size_t i = 0; i < count; i++)
        total += list.get(i);
}

int main()
{
    std::thread reader(sum_list);
    std::thread writer([] {
        list.remove_last();
    });
    reader.join();
    writer.join();
    std::printf("summed %s\n", total == 6 || total == 3 ? "one state of the list" : "a mixture");
    return 0;
}

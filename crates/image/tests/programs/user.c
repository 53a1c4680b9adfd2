int run(int argc);
int main(int argc, char **argv) {
    (void)argv;
    return run(argc) == 5 ? 0 : 1;
}

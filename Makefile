# Bochner: every target installs missing packages (scripts/setup), configures and builds first.
#
#   make test    make run    make help
#
# The build itself uses CMake (docs/guides/building.md). Options: CC=clang, PREFIX=/usr, DESTDIR=, JOBS=4,
# CMAKE_FLAGS="-DBOCHNER_MPI=OFF".

BUILD       ?= build
PREFIX      ?= /usr/local
DESTDIR     ?=
CMAKE_FLAGS ?=
JOBS        ?= $(shell nproc 2>/dev/null || echo 2)
# A compiler from the environment or the command line is used; make's built-in default (cc) is not.
COMPILER    := $(if $(filter default undefined,$(origin CC)),,-DCMAKE_C_COMPILER=$(CC))
# The shell runs this test, because make expands a recipe before its first line has installed ninja.
configure    = generator=; if ! [ -e $(1)/CMakeCache.txt ] && command -v ninja >/dev/null; then generator='-G Ninja'; fi; \
               cmake -S . -B $(1) $$generator $(COMPILER) $(2) $(CMAKE_FLAGS) --log-level=$(LOG_LEVEL)
compile      = cmake --build $(1) --parallel $(JOBS)
LOG_LEVEL   ?= STATUS
CTEST        = ctest --output-on-failure --no-label-summary --parallel $(JOBS)
# `make all` builds everything; targets that need no GPU build only the program.
PRODUCT     ?= product
BENCH       ?=
BUNDLE      ?=
PLUGIN      ?=
MINUTES     ?= 1.6
TEXT        ?=
STEPS       ?= 400
SEEDS       ?= 1
LAB_FLAGS   ?= --quick
# These tests are slow with tiny blocks: statistics over many draws, long sequences, measured advice.
TINY_EXCEPT  = ^(machines\.weights|attention\.(long|statistics|advise.*))$$
TINY_MODULES = ^(device|math|features|attention|machines|backend|tape|io|text)\.
# house.install links the static library, which would need the coverage runtime.
COVER       ?= -LE '^long$$' -E '^house\.install$$'
FASHION     ?= /usr/share/datasets/fashion-mnist

.DEFAULT_GOAL := all
.PHONY: all check test test-long test-tiny test-arm64 test-cuda cuda-bundle test-peers docs api times verdicts python wheel run results lab fashion install uninstall dist distcheck \
        cover sanitize tsan races fuzz soak bench bench-peers bench-python speed analyze format clean help
MAKEFLAGS += --no-print-directory

python api verdicts bench bench-peers speed: PRODUCT = program

all: ## build: build/bochner, build/libbochner.a, build/libbochner.so; with nvcc also build/libbochner_cuda.so (minutes)
	@scripts/setup build
	@$(call configure,$(BUILD))
	@$(call compile,$(BUILD)) --target $(PRODUCT)

check: ## build and run the quick tests (under two minutes)
	@scripts/setup test
	@$(call configure,$(BUILD),-DBOCHNER_TESTS=ON)
	@$(call compile,$(BUILD))
	@cd $(BUILD) && $(CTEST) -L '^quick$$'

test: ## build and run the tests (minutes)
	@scripts/setup test
	@$(call configure,$(BUILD),-DBOCHNER_TESTS=ON)
	@$(call compile,$(BUILD))
	@cd $(BUILD) && $(CTEST) -LE '^long$$'

test-long: ## build and run all tests, including slow ones
	@scripts/setup test
	@$(call configure,$(BUILD),-DBOCHNER_TESTS=ON)
	@$(call compile,$(BUILD))
	@cd $(BUILD) && BOCHNER_LONG=1 $(CTEST)

docs: python ## the C API (build/docs/html) and the Python package (build/docs/python) as HTML; refreshes docs/reference/commands.md
	@scripts/setup docs
	@$(BUILD)/bochner help --markdown <docs/reference/commands.md >$(BUILD)/commands.md && cp $(BUILD)/commands.md docs/reference/commands.md
	@scripts/docs $(BUILD)/docs
	@$(BUILD)/python/bin/python -m sphinx -q -W --keep-going -b html docs/python $(BUILD)/docs/python
	@echo 'docs: $(BUILD)/docs/html/index.html and $(BUILD)/docs/python/index.html'

python: all ## install the Python package into build/python, a virtual environment with the system packages
	@scripts/setup python
	@scripts/python $(BUILD) $(PYTHON)

wheel: ## build the Python package as a wheel that contains its libraries (build/wheels), checked by auditwheel
	@scripts/setup build wheel
	@scripts/wheel $(BUILD)

test-tiny: ## tests in a build with tiny blocks and buffers and all assertions (build-tiny)
	@scripts/setup test
	@$(call configure,build-tiny,-DBOCHNER_TESTS=ON -DBOCHNER_TINY=ON)
	@$(call compile,build-tiny)
	@cd build-tiny && $(CTEST) -R '$(TINY_MODULES)' -E '@|$(TINY_EXCEPT)' -LE '^long$$'

test-arm64: ## cross-compile for 64-bit ARM and run the quick tests under qemu (build-arm64); skipped without its packages
	@if scripts/setup arm64 && scripts/sysroot arm64 build-arm64/sysroot; then \
	    $(call configure,build-arm64,-DBOCHNER_TESTS=ON -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake) && \
	    $(call compile,build-arm64) && cd build-arm64 && $(CTEST) -L '^quick$$'; \
	else echo 'test-arm64: skipped: the cross compiler, qemu or the ARM libraries could not be installed (see above)'; fi

test-cuda: ## test the backend for NVIDIA GPUs on a GPU (build-cuda); skipped without nvcc or a GPU; BUNDLE=FILE: see cuda-bundle
ifeq ($(BUNDLE),)
	@scripts/setup test
	@$(call configure,build-cuda,-DBOCHNER_TESTS=ON -DBOCHNER_GPU_TESTS=ON)
	@if ! grep -q '^BOCHNER_NVCC:FILEPATH=/' build-cuda/CMakeCache.txt; then echo 'test-cuda: skipped: nvcc was not found'; \
	else $(call compile,build-cuda) --target product && if build-cuda/bochner info --devices | grep '^cuda:'; then \
	    $(call compile,build-cuda) && cd build-cuda && $(CTEST) -L '^cuda$$'; \
	else echo "test-cuda: skipped: $$(build-cuda/bochner info --devices | tail -1)"; fi; fi
else
	@rm -rf build-cuda/bundle && mkdir -p build-cuda/bundle && python3 -m tarfile -e '$(BUNDLE)' build-cuda/bundle
	@build-cuda/bundle/bochner-cuda-tests/run-tests --jobs $(JOBS)
endif

cuda-bundle: ## pack the tests for a GPU host without packages and network: build/cuda-bundle.tar.xz; PLUGIN=libbochner_cuda.so
	@scripts/setup test
	@$(call configure,$(BUILD),-DBOCHNER_TESTS=ON)
	@scripts/cuda-bundle $(BUILD) $(PLUGIN)

test-peers: ## compare with transformers, tokenizers, peft and others, which are installed from PyPI into the build directory
	@scripts/setup test peers
	@$(call configure,$(BUILD),-DBOCHNER_TESTS=ON)
	@$(call compile,$(BUILD)) --target program peer_tails
	@scripts/peers $(BUILD); status=$$?; [ $$status = 77 ] && exit 0; [ $$status = 0 ] || exit $$status; \
	    cd $(BUILD) && $(CTEST) -L '^peers$$'

api: all ## refresh the table of functions in docs/reference/api.md and tests/house/layout.txt, the layout of public structs
	@BOCHNER_SOURCE=. BOCHNER_BUILD=$(BUILD) CC='$(or $(filter-out default,$(CC)),cc)' sh tests/house/test_api.sh --refresh

times: ## refresh tests/times.txt from the last run of `make test` or `make test-long`: which tests are slow
	@scripts/times $(BUILD)

verdicts: all ## refresh tests/lab/verdicts.txt, the verdicts of the quick lab that make test-long expects; EXPERIMENTS="dark rfa" (default: all)
	@scripts/verdicts $(BUILD) $(EXPERIMENTS)

run: ## train a language model with linear attention on English text for two minutes, evaluate it, generate text
	@scripts/setup run
	@$(MAKE) all LOG_LEVEL=WARNING PRODUCT=program
	@scripts/run $(BUILD) $(MINUTES)

results: ## the numbers and the plot of the README: softmax, RFA-Gate, FAVOR+, DARK at equal budget; TEXT=FILE STEPS=400 SEEDS="1 2 3"
	@scripts/setup run
	@$(MAKE) all LOG_LEVEL=WARNING PRODUCT=program
	@scripts/results $(BUILD) "$(TEXT)" "$(STEPS)" "$(SEEDS)"

lab: ## run the experiments of the lab with small sizes and write a page of verdicts; LAB_FLAGS= for the full sizes
	@scripts/setup run
	@$(MAKE) all LOG_LEVEL=WARNING PRODUCT=program
	@scripts/lab $(BUILD) "$(LAB_FLAGS)"

fashion: ## fit Fashion-MNIST with default settings: accuracy, time, confusion matrix, accuracy report
	@scripts/setup fashion
	@$(MAKE) all LOG_LEVEL=WARNING PRODUCT=program
	@scripts/fashion $(BUILD) $(FASHION)

install: ## install to $(DESTDIR)$(PREFIX), stripped
	@$(MAKE) all CMAKE_FLAGS='$(CMAKE_FLAGS) -DCMAKE_INSTALL_PREFIX="$(PREFIX)"'
	DESTDIR='$(DESTDIR)' cmake --install $(BUILD)

uninstall: ## remove the files that make install added under $(DESTDIR)$(PREFIX)
	@scripts/uninstall $(BUILD) '$(DESTDIR)$(PREFIX)'

dist: ## create the source archive build/bochner-VERSION.tar.gz, reproducibly
	@scripts/dist $(BUILD)

distcheck: dist ## unpack the archive, build it and run its quick tests
	@scripts/distcheck $(BUILD)

soak: MINUTES = 30
soak: ## training, kill -9 and resuming, evaluation and generation in a loop, with memory and open files watched; MINUTES=30
	@$(MAKE) all LOG_LEVEL=WARNING PRODUCT=program
	@scripts/soak $(BUILD) $(MINUTES)

cover: ## coverage of lines and branches by the tests (build-cover); COVER="-L quick" for quick tests
	@scripts/setup test cover
	@$(call configure,build-cover,-DBOCHNER_TESTS=ON -DBOCHNER_COVER=ON)
	@$(call compile,build-cover)
	@find build-cover -name '*.gcda' -delete
	@cd build-cover && $(CTEST) $(COVER); status=$$?; cd .. && scripts/cover build-cover && exit $$status

sanitize: SANITIZED = build-sanitize$(if $(findstring clang,$(CC)),-clang)
sanitize: ## run the tests under AddressSanitizer and UndefinedBehaviorSanitizer (build-sanitize; CC=clang: build-sanitize-clang)
	@scripts/setup test check
	@$(call configure,$(SANITIZED),-DBOCHNER_SANITIZE=address$(comma)undefined -DBOCHNER_MPI=OFF)
	@$(call compile,$(SANITIZED))
	@cd $(SANITIZED) && $(CTEST) -LE '^long$$'

tsan: ## run the tests under ThreadSanitizer (build-tsan)
	@scripts/setup test check
	@$(call configure,build-tsan,-DBOCHNER_SANITIZE=thread -DBOCHNER_MPI=OFF)
	@$(call compile,build-tsan)
	@cd build-tsan && $(CTEST) -LE '^long$$|^house$$'

races: ## run the kernels of GPUs in an emulator that finds races in shared memory (build-races)
	@scripts/setup test
	@$(call configure,build-races,-DBOCHNER_RACES=ON -DBOCHNER_CUDA=OFF -DBOCHNER_MPI=OFF)
	@$(call compile,build-races)
	@cd build-races && $(CTEST) -L '^cuda$$|^emulator$$' -LE '^long$$'

fuzz: COMPILER = -DCMAKE_C_COMPILER=clang
fuzz: ## fuzz every parser with libFuzzer (build-fuzz); SECONDS=60 for each, or RUNS=1000000; ONLY=REGEX
	@scripts/setup test check
	@$(call configure,build-fuzz,-DBOCHNER_TESTS=ON -DBOCHNER_LIBFUZZER=ON -DBOCHNER_MPI=OFF -DCMAKE_BUILD_TYPE=None \
	    -DCMAKE_C_FLAGS='-O1 -gline-tables-only -fsanitize=fuzzer-no-link$(comma)address$(comma)undefined')
	@$(call compile,build-fuzz) --target fuzz
	@scripts/fuzz build-fuzz jobs=$(JOBS) $(if $(RUNS),runs=$(RUNS),seconds=$(or $(SECONDS),60)) $(if $(ONLY),only='$(ONLY)')

bench: all ## run benchmarks; rates are relative to the GEMM of this host; BENCH="--mnist DIRECTORY ..." for more data
	$(BUILD)/bochner bench machines --scratch $(BUILD) $(BENCH)
	$(BUILD)/bochner bench attention
	$(BUILD)/bochner bench train

bench-peers: all ## compare training, attention and layers with the newest PyTorch, installed from PyPI into the build directory (6 GB)
	@scripts/setup peers
	@scripts/bench-peers $(BUILD); status=$$?; [ $$status = 77 ] && exit 0; [ $$status = 0 ] || exit $$status; \
	    $(BUILD)/bochner bench train --only step --python $(BUILD)/peers-bench/bin/python && \
	    $(BUILD)/bochner bench attention --only peer --lengths 4096,16384 --features 128 --python $(BUILD)/peers-bench/bin/python && \
	    $(BUILD)/bochner bench layers --python $(BUILD)/peers-bench/bin/python

bench-python: python ## compare the Python package with the C benchmark, the newest PyTorch and scikit-learn (6 GB); PARTS="overhead c torch sklearn"
	@scripts/setup peers
	@scripts/bench-peers $(BUILD); status=$$?; [ $$status = 77 ] && exit 0; [ $$status = 0 ] || exit $$status; \
	    PYTHONPATH=$$($(BUILD)/python/bin/python -c 'import bochner, pathlib; print(pathlib.Path(bochner.__file__).parent.parent)') \
	    $(BUILD)/peers-bench/bin/python bench/python/compare.py $(BUILD)/bochner $(PARTS)

speed: all ## measure every table of speed of the documentation again, hours on an idle host; PARTS="train scale" (scripts/speed --list), DATA=DIRECTORY
	@BUILD=$(BUILD) DATA='$(DATA)' scripts/speed $(PARTS)

analyze: ## run clang-tidy and cppcheck over src, cli, lab and bench; check spelling (codespell) and the links of the documentation
	@scripts/setup analyze
	@$(call configure,$(BUILD))
	cppcheck -q --std=c11 -j $(JOBS) --enable=warning,portability --inline-suppr --max-configs=1 --error-exitcode=1 \
	    --suppressions-list=tests/house/cppcheck.txt --suppress=missingIncludeSystem -D_GNU_SOURCE -D__x86_64__ \
	    -Iinclude src cli lab bench
	run-clang-tidy -p $(BUILD) -quiet -j $(JOBS) '^$(CURDIR)/(src|cli|lab|bench)/' >$(BUILD)/tidy.log 2>&1 || \
	    { grep -A3 -E 'warning:|error:' $(BUILD)/tidy.log; exit 1; }
	git ls-files -z README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md Makefile docs include src cli lab bench tests scripts cmake examples | \
	    grep -zvE '^tests/(data|fuzz/corpus)/|\.(svg|npy|gz|safetensors)$$|^tests/house/codespell.txt$$' | \
	    xargs -0 codespell -q 3 -I tests/house/codespell.txt
	BOCHNER_SOURCE=. BOCHNER_BUILD=$(BUILD) CC='$(or $(filter-out default,$(CC)),cc)' sh tests/house/test_docs.sh

format: ## clang-format every C, C++ and CUDA file in place; the pinned version is installed from PyPI into the build directory
	@scripts/format $(BUILD)

clean: ## remove the build directories
	rm -rf build build-sanitize build-sanitize-clang build-tsan build-races build-tiny build-cover build-arm64 build-cuda

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

comma := ,

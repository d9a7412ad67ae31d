# Plugins are opened only from the real directory of the program or library, from the plugin directory of its
# installation, and from an absolute path in the environment: never from the current directory, whatever argv[0] and
# PATH are.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
unset BOCHNER_CUDA BOCHNER_MPI OMPI_COMM_WORLD_SIZE MV2_COMM_WORLD_SIZE PMI_SIZE SLURM_STEP_NUM_TASKS PMIX_RANK
work=$(pwd -P)
version=$("$BOCHNER" version | sed 's/^bochner \([^ ]*\).*/\1/')
bin=$(sed -n 's/^CMAKE_INSTALL_BINDIR:PATH=//p' "$BOCHNER_BUILD/CMakeCache.txt")
lib=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:PATH=//p' "$BOCHNER_BUILD/CMakeCache.txt")

# A plugin of this version that finds no GPU; one of another version; one that leaves a file as soon as it is opened.
cat >plugin.c <<'END'
#include "src/device/gpu/plugin.h"
#include <stdio.h>
static int devices(void) { return 0; }
static const bo_gpu_functions functions = {.bytes = sizeof functions, .version = VERSION, .devices = devices};
__attribute__((visibility("default"))) const bo_gpu_functions *bo_cuda_plugin(void) { return &functions; }
#ifdef TRACE
__attribute__((constructor)) static void start(void) { fclose(fopen(TRACE, "w")); }
#endif
END
build() { # file, version, options
    "$CC" -shared -fPIC -I"$BOCHNER_SOURCE" -I"$BOCHNER_SOURCE/include" -DVERSION="\"$2\"" $3 plugin.c -o "$1" || exit 1
}
build good.so "$version" ""
build old.so 0.0.9 ""
build poison.so "$version" "-DTRACE=\"$work/executed\""

# A program that starts another program with any argv[0], for shells without exec -a.
cat >start.c <<'END'
#include <unistd.h>
int main(int count, char **word) { return count < 3 ? 2 : (execv(word[1], word + 2), 1); }
END
"$CC" start.c -o start || exit 1

# The current directory and every place relative to it contain poison under every name.
mkdir -p here/bochner "$lib/bochner" "here/$lib/bochner"
for directory in here here/bochner "$lib/bochner" "here/$lib/bochner"; do
    for name in libbochner_cuda.so bochner-mpi.so; do cp poison.so "$directory/$name"; done
done
house 60 5 >here/train.csv
cd here || exit 1
fit="fit train.csv --features 16 --gamma 1 --lambda 1 --threads 1 --quiet --out model"
harmless() { # what was tried
    [ -e "$work/executed" ] && complain "$1: a plugin in the current directory was executed"
    rm -f "$work/executed" model
}
LD_LIBRARY_PATH=$work/here "$work/start" "$BOCHNER" bochner info --devices >out 2>err # the directory is not searched for names
harmless "a name without a slash"
for name in ./bochner bochner ../here/bochner "$work/here/bochner" ./ /bochner ""; do
    "$work/start" "$BOCHNER" "$name" info --devices >out 2>err
    harmless "argv[0] = '$name'"
    OMPI_COMM_WORLD_SIZE=2 "$work/start" "$BOCHNER" "$name" $fit >out 2>err
    harmless "argv[0] = '$name', MPI"
done
ln -s "$BOCHNER" link
./link info --devices >out 2>err
harmless "a symbolic link in the current directory"
OMPI_COMM_WORLD_SIZE=2 ./link $fit >out 2>err
harmless "a symbolic link in the current directory, MPI"
for path in . "" "$work/here"; do
    PATH=$path:$PATH link info --devices >out 2>err
    harmless "PATH=$path"
done

# Relative paths in the environment are refused. An empty variable is not set.
for name in libbochner_cuda.so ./libbochner_cuda.so ../here/libbochner_cuda.so bochner/libbochner_cuda.so; do
    BOCHNER_CUDA=$name succeeds "$BOCHNER" info --devices
    grep -q "^GPUs  *none: .*BOCHNER_CUDA must be an absolute path, found $name" out || complain "BOCHNER_CUDA=$name: $(cat out)"
    harmless "BOCHNER_CUDA=$name"
    fails 1 "BOCHNER_MPI must be an absolute path, found $name" env OMPI_COMM_WORLD_SIZE=2 BOCHNER_MPI="$name" "$BOCHNER" $fit
    harmless "BOCHNER_MPI=$name"
done
BOCHNER_CUDA='' "$BOCHNER" info --devices >out 2>err
harmless "an empty BOCHNER_CUDA"

# The places where a plugin is found: the variable first, then the directory of the real program, then the plugin
# directory of its installation.
finds() { # path of the plugin, command...
    expected=$1
    shift
    succeeds "$@"
    grep -q "^Plugin  *$expected$" out || complain "$* uses $(grep ^Plugin out), not $expected: $(grep ^GPUs out)"
    harmless "$*"
}
BOCHNER_CUDA=$work/good.so finds "$work/good.so" "$BOCHNER" info --devices
mkdir -p "$work/opt/x/$bin" "$work/opt/x/$lib/bochner" "$work/usr/$bin"
cp "$BOCHNER" "$work/opt/x/$bin/bochner"
ln -s "../../opt/x/$bin/bochner" "$work/usr/$bin/bochner"
installed="$work/opt/x/$lib/bochner/libbochner_cuda.so"
cp "$work/good.so" "$installed"
for program in "$work/opt/x/$bin/bochner" "$work/usr/$bin/bochner" "../usr/$bin/bochner"; do
    succeeds "$program" info --devices
    plugin=$(sed -n 's/^Plugin  *//p' out)
    [ "$(realpath "$plugin")" = "$installed" ] || complain "$program uses '$plugin', not $installed: $(cat out)"
    harmless "$program"
done
cp "$work/good.so" "$work/opt/x/$bin/libbochner_cuda.so"
for program in "$work/opt/x/$bin/bochner" "$work/usr/$bin/bochner" "../usr/$bin/bochner"; do
    finds "$work/opt/x/$bin/libbochner_cuda.so" "$program" info --devices
done
cp "$work/old.so" "$work/opt/x/$bin/libbochner_cuda.so"
succeeds "$work/opt/x/$bin/bochner" info --devices
grep -q "libbochner_cuda.so is a plugin for version 0.0.9; this is version $version: install both from one build" out ||
    complain "a plugin of another version: $(cat out)"
rm "$work/opt/x/$bin/libbochner_cuda.so" "$installed"
succeeds "$work/opt/x/$bin/bochner" info --devices
grep -q "$work/opt/x/$bin/libbochner_cuda.so nor .*$lib/bochner/libbochner_cuda.so exists" out || complain "no plugin: $(cat out)"

# The shared library in another program: the directory of the library, not of the program.
if [ -e "$BOCHNER_BUILD/libbochner.so" ] && [ -z "${SANITIZE:-}" ]; then
    cat >"$work/user.c" <<'END'
#define BO_EXPERIMENTAL
#include <bochner/bochner.h>
#include <stdio.h>
int main(void)
{
    bo_context *context;
    if (bo_context_create(NULL, &context) != BO_OK) return 1;
    size_t count;
    const char *path;
    if (bo_device_count(context, &count, &path) != BO_OK) return 1;
    printf("Plugin %s\n", path ? path : bo_context_error(context));
    bo_context_destroy(context);
    return 0;
}
END
    version_name=$(readelf -d "$BOCHNER_BUILD/libbochner.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
    cp -L "$BOCHNER_BUILD/libbochner.so" "$work/opt/x/$lib/$version_name"
    "$CC" -I"$BOCHNER_SOURCE/include" "$work/user.c" "$work/opt/x/$lib/$version_name" -o user || exit 1
    cp "$work/good.so" "$installed"
    LD_LIBRARY_PATH=$work/opt/x/$lib finds "$installed" ./user
    LD_LIBRARY_PATH=../opt/x/$lib finds "$installed" ./user
    cp "$work/good.so" "$work/opt/x/$lib/libbochner_cuda.so"
    LD_LIBRARY_PATH=$work/opt/x/$lib finds "$work/opt/x/$lib/libbochner_cuda.so" ./user
fi
finish

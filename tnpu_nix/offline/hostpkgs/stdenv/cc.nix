# A compiler of the machine as a store path: wrapped drivers and linkers, linked tools.
{
  bash,
  gcc-lib,
  glibc,
  hostDerivation,
}:
{
  # "" for the native compiler, else the target triple of a cross compiler with a dash.
  targetPrefix ? "",
  apt,
  # A folder of system headers to use if the machine has it.
  includeIfThere ? "",
}:
hostDerivation {
  pname = "${targetPrefix}gcc-wrapper";
  inherit apt targetPrefix includeIfThere;
  script = ''
    # wrap SCRIPT PROGRAM NAME...: the same wrapper under each name
    wrap() {
      local script=$1 program=/usr/bin/$targetPrefix$2 name
      shift 2
      need "$program"
      for name; do
        sed -e "s|@program@|$program|;s|@name@|$name|;s|@shell@|${bash}/bin/bash|" \
          -e "s|@bin@|$out/bin|;s|@flags@|$flags|" \
          -e "s|@loader@|${glibc.loader}|;s|@glibc@|${glibc}|;s|@gcclib@|${gcc-lib}|" \
          "$script" >$out/bin/$targetPrefix$name
        chmod +x $out/bin/$targetPrefix$name
      done
    }
    mkdir -p $out/bin $out/nix-support
    flags=
    if [[ -n $includeIfThere && -d $includeIfThere ]]; then flags="-isystem $includeIfThere"; fi
    wrap ${./cc-wrapper.sh} gcc gcc cc
    wrap ${./cc-wrapper.sh} g++ g++ c++
    wrap ${./cc-wrapper.sh} cpp cpp
    for tool in ar nm ranlib strip objdump objcopy readelf size strings as c++filt addr2line \
      gcc-ar gcc-nm gcc-ranlib; do
      link_programs $targetPrefix$tool
    done

    if [[ -n $targetPrefix ]]; then
      # The cross linker needs no store paths: what it links runs on no Linux.
      link_programs ''${targetPrefix}ld
    else
      for name in ld ld.bfd ld.gold; do
        [[ ! -e /usr/bin/$name ]] || wrap ${./ld-wrapper.sh} $name $name
      done
      # What Debian's Python compiles extension modules with.
      ln -s gcc $out/bin/x86_64-linux-gnu-gcc
      ln -s g++ $out/bin/x86_64-linux-gnu-g++
    fi

    for pair in CC=gcc CXX=g++ LD=ld AR=ar AS=as NM=nm RANLIB=ranlib STRIP=strip \
      OBJDUMP=objdump OBJCOPY=objcopy READELF=readelf SIZE=size STRINGS=strings; do
      echo "export ''${pair%%=*}=$targetPrefix''${pair#*=}"
    done >$out/nix-support/setup-hook
  '';
  meta.mainProgram = "${targetPrefix}gcc";
  passthru = {
    inherit targetPrefix;
    cc.lib = gcc-lib;
  };
}

# A compiler of the machine as a store path: wrapped drivers and linkers, linked tools.
{
  lib,
  hostDerivation,
  bash,
  glibc,
  gcc-lib,
}:
{
  # "" for the native compiler, else the target triple of a cross compiler with a dash.
  targetPrefix ? "",
  apt,
  # A folder of system headers to use if the machine has it.
  includeIfThere ? "",
}:
let
  cross = targetPrefix != "";
  wrap = ''
    # wrap SCRIPT PROGRAM NAME...: the same wrapper under each name
    wrap() {
      local script=$1 program=$2 name
      shift 2
      need "$program"
      for name; do
        sed -e "s|@program@|$program|" -e "s|@name@|$name|" -e "s|@shell@|${bash}/bin/bash|" \
          -e "s|@bin@|$out/bin|" -e "s|@flags@|$flags|" -e "s|@cross@|$targetPrefix|" \
          -e "s|@loader@|${glibc.loader}|;s|@glibc@|${glibc}|;s|@gcclib@|${gcc-lib}|" \
          "$script" >$out/bin/$targetPrefix$name
        chmod +x $out/bin/$targetPrefix$name
      done
    }
    mkdir -p $out/bin $out/nix-support
    flags=
    if [[ -n $includeIfThere && -d $includeIfThere ]]; then flags="-isystem $includeIfThere"; fi
  '';
  compilers = ''
    wrap ${./cc-wrapper.sh} /usr/bin/''${targetPrefix}gcc gcc cc
    wrap ${./cc-wrapper.sh} /usr/bin/''${targetPrefix}g++ g++ c++
    wrap ${./cc-wrapper.sh} /usr/bin/''${targetPrefix}cpp cpp
  '';
  # The cross linker needs no store paths: what it links runs on no Linux.
  linkers =
    if cross then
      "link_programs \${targetPrefix}ld"
    else
      ''
        for name in ld ld.bfd ld.gold; do
          [[ ! -e /usr/bin/$name ]] || wrap ${./ld-wrapper.sh} /usr/bin/$name $name
        done
        ln -s gcc $out/bin/x86_64-linux-gnu-gcc
        ln -s g++ $out/bin/x86_64-linux-gnu-g++
      '';
  tools = ''
    for tool in ar nm ranlib strip objdump objcopy readelf size strings as c++filt addr2line \
      gcc-ar gcc-nm gcc-ranlib; do
      link_programs $targetPrefix$tool
    done
  '';
  hook = ''
    {
      for pair in CC=gcc CXX=g++ LD=ld AR=ar AS=as NM=nm RANLIB=ranlib STRIP=strip \
        OBJDUMP=objdump OBJCOPY=objcopy READELF=readelf SIZE=size STRINGS=strings; do
        if [[ -n $targetPrefix ]]; then
          echo "export ''${pair%%=*}=$targetPrefix''${pair#*=}"
        else
          # Beside a cross compiler, the native one is the compiler of the build machine.
          echo "declare -gx \"''${pair%%=*}\''${crossBuild:+_FOR_BUILD}=''${pair#*=}\""
        fi
      done
    } >$out/nix-support/setup-hook
  '';
in
hostDerivation {
  pname = "${targetPrefix}gcc-wrapper";
  inherit apt targetPrefix includeIfThere;
  script = wrap + compilers + linkers + "\n" + tools + hook;
  meta.mainProgram = "${targetPrefix}gcc";
  passthru = {
    inherit targetPrefix;
    isGNU = true;
    isClang = false;
    libc = glibc;
    cc.lib = gcc-lib;
    bintools = { inherit targetPrefix; };
  };
}

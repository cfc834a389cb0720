# An environment in $out: a venv of the run-time interpreter (pyvenv.cfg makes it look
# for modules here), with links to the modules and programs of $paths.
program=$(basename "$runtime"/lib/python3.*)
site=$out/lib/$program/site-packages
mkdir -p "$out/bin" "$site"
# A wrapper, as nixpkgs has it: reached through a link from elsewhere (/bin/python3 in an
# image) the interpreter would not find the pyvenv.cfg of this folder.
for name in python python3 "$program"; do
    printf '#!%s\nexec -a "%s" "%s" "$@"\n' "$shell" "$out/bin/$name" \
        "$runtime/bin/$program" >"$out/bin/$name"
    chmod +x "$out/bin/$name"
done
[[ $libPrefix == "$program" ]] || ln -s "$program" "$out/lib/$libPrefix"
printf '%s\n' "home = $runtime/bin" "include-system-site-packages = false" \
    "version = ${program#python}" >"$out/pyvenv.cfg"
for path in $paths; do
    modules=$path/lib/$libPrefix/site-packages
    [[ ! -d $modules ]] || cp -rsT --no-clobber --no-preserve=mode "$modules" "$site"
    for program in "$path"/bin/*; do
        name=${program##*/}
        [[ -e $program && ! -e $out/bin/$name ]] || continue
        if head -n 1 "$program" | grep -qa '^#!.*/python3$'; then
            # Run it by this environment's interpreter, which sees all the modules.
            sed "1s|.*|#!$out/bin/python3|" "$program" >"$out/bin/$name"
            chmod +x "$out/bin/$name"
        else
            ln -s "$program" "$out/bin/$name"
        fi
    done
done

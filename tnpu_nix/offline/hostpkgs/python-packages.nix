# The Python package set: buildPythonPackage, and modules copied from the machine.
{ self }:
final: _:
let
  inherit (self) lib stdenv hostDerivation;
  inherit (final) python;
  inherit (python) sitePackages;

  # A module of /usr/lib/python3/dist-packages as a package. `optional` ones belong to
  # it in some versions only.
  hostModule =
    {
      pname,
      apt ? "python3-${pname}",
      dists ? [ pname ],
      modules ? [ pname ],
      optional ? [ ],
      dependencies ? [ ],
      extra ? "",
      propagated ? [ ],
    }:
    hostDerivation {
      pname = "${python.libPrefix}-${pname}";
      inherit apt dists modules optional sitePackages;
      inherit (python) interpreter;
      propagated = map toString (dependencies ++ propagated);
      script = ". ${./python-module.sh}\n${extra}";
      passthru = pythonModule dependencies;
    };
  pythonModule = dependencies: {
    pythonModule = python;
    inherit dependencies;
    requiredPythonModules = final.requiredPythonModules dependencies;
  };
  # A distribution that stands for a program of the same name, for build-system.requires.
  programStub =
    program:
    hostDerivation {
      pname = "${python.libPrefix}-${program.pname}";
      inherit sitePackages program;
      script = ''
        name=${program.pname}
        version=$("$program/bin/$name" --version | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1)
        info=$out/$sitePackages/$name-$version.dist-info
        mkdir -p "$info" $out/nix-support
        printf '%s\n' 'Metadata-Version: 2.1' "Name: $name" "Version: $version" >"$info/METADATA"
        echo "$program" >$out/nix-support/propagated-native-build-inputs
      '';
      passthru = pythonModule [ ];
    };

  buildPythonPackage =
    attrsOrFunction:
    stdenv.mkDerivation (
      finalAttrs:
      let
        attrs = lib.toFunction attrsOrFunction finalAttrs;
        format = attrs.format or (if attrs.pyproject or true then "pyproject" else "other");
        dependencies = lib.remove null (
          (attrs.dependencies or [ ]) ++ (attrs.propagatedBuildInputs or [ ])
        );
        pythonDependencies = final.requiredPythonModules dependencies;
        usesWheel = format != "other";
        checks = attrs.doCheck or true;
      in
      {
        pythonImportsCheck = [ ];
      }
      // lib.optionalAttrs usesWheel {
        configurePhase = "runHook preConfigure; runHook postConfigure";
        buildPhase = if format == "wheel" then "mkdir -p dist; cp $src dist/" else "pypaBuildPhase";
        installPhase = "pypaInstallPhase";
      }
      // removeAttrs attrs [
        "build-system"
        "checkPhase"
        "dependencies"
        "disabled"
        "doCheck"
        "format"
        "nativeCheckInputs"
        "optional-dependencies"
        "pyproject"
        "pythonRelaxDeps"
      ]
      // {
        name = "${python.libPrefix}-${attrs.pname}-${attrs.version}";
        nativeBuildInputs = [
          python
          final.build
          final.installer
        ]
        ++ lib.optional (format == "setuptools") final.setuptools
        ++ (attrs.build-system or [ ])
        ++ (attrs.nativeBuildInputs or [ ])
        ++ lib.optionals checks (attrs.nativeCheckInputs or [ ]);
        propagatedBuildInputs = dependencies;
        inherit sitePackages pythonDependencies;
        pythonRuntime = python.runtime;
        preHook = ". ${./make-wrapper.sh}; . ${./python-build.sh}\n${attrs.preHook or ""}";
        preDistPhases = [ "pythonImportsCheckPhase" ];
        doInstallCheck = checks && attrs ? checkPhase;
        installCheckPhase = attrs.checkPhase or ":";
        passthru =
          pythonModule dependencies
          // { optional-dependencies = attrs.optional-dependencies or { }; }
          // (attrs.passthru or { });
      }
    );
in
{
  inherit buildPythonPackage;
  buildPythonApplication = buildPythonPackage;
  inherit (python) pythonVersion pythonOlder pythonAtLeast isPy3k;
  pythonPackages = final;
  callPackage = lib.callPackageWith (self // final);
  toPythonModule = drv: drv // { pythonModule = python; };
  toPythonApplication = drv: drv;
  # The given modules and all that they depend on, each once.
  requiredPythonModules =
    drvs:
    lib.unique (
      lib.concatMap (d: [ d ] ++ d.requiredPythonModules or [ ]) (
        lib.filter (d: d ? pythonModule) drvs
      )
    );

  setuptools = hostModule {
    pname = "setuptools";
    modules = [
      "setuptools"
      "pkg_resources"
    ];
    optional = [
      "_distutils_hack"
      "distutils-precedence.pth"
    ];
    apt = "python3-setuptools python3-pkg-resources";
  };
  wheel = hostModule { pname = "wheel"; };
  installer = hostModule { pname = "installer"; };
  packaging = hostModule { pname = "packaging"; };
  build = hostModule {
    pname = "build";
    dependencies = [
      final.packaging
      final.wheel
    ];
    # What it is made of has changed over its versions.
    optional = [
      "pep517"
      "pyproject_hooks"
      "tomli"
      "toml"
    ];
  };
  pybind11 = hostModule {
    pname = "pybind11";
    apt = "pybind11-dev python3-pybind11";
    extra = ''
      need /usr/include/pybind11 /usr/lib/cmake/pybind11
      mkdir -p $out/include $out/share/cmake $out/$sitePackages/pybind11/share/cmake
      rm -rf $out/$sitePackages/pybind11/include
      cp -r --no-preserve=mode /usr/include/pybind11 $out/include/
      cp -r --no-preserve=mode /usr/lib/cmake/pybind11 $out/share/cmake/
      # pybind11.get_include() and get_cmake_dir() look beside the module.
      ln -s $out/include $out/$sitePackages/pybind11/include
      ln -s $out/share/cmake/pybind11 $out/$sitePackages/pybind11/share/cmake/pybind11
    '';
  };
  nanobind = hostModule {
    pname = "nanobind";
    apt = "python3-nanobind nanobind-dev";
  };
  cmake = programStub self.cmake;
  ninja = programStub self.ninja;

  click = hostModule { pname = "click"; };
  markupsafe = hostModule {
    pname = "markupsafe";
    dists = [ "MarkupSafe" ];
  };
  jinja2 = hostModule {
    pname = "jinja2";
    dists = [ "Jinja2" ];
    dependencies = [ final.markupsafe ];
  };
  typing-extensions = hostModule {
    pname = "typing-extensions";
    dists = [ "typing_extensions" ];
    modules = [ "typing_extensions.py" ];
  };
  pydantic = hostModule {
    pname = "pydantic";
    dependencies = [ final.typing-extensions ];
    optional = [
      "pydantic_core"
      "annotated_types"
      "typing_inspection"
    ];
  };
  tomlkit = hostModule { pname = "tomlkit"; };
  pygments = hostModule {
    pname = "pygments";
    dists = [ "Pygments" ];
  };
  rich = hostModule {
    pname = "rich";
    dependencies = [ final.pygments ];
    optional = [
      "markdown_it"
      "mdurl"
      "commonmark"
    ];
  };
  platformdirs = hostModule { pname = "platformdirs"; };
}

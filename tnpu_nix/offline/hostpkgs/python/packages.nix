# The Python package set: buildPythonPackage, and modules copied from the machine.
{ self, python }:
final:
let
  inherit (self) lib stdenv hostDerivation;
  inherit (python) sitePackages;

  # Modules of /usr/lib/python3/dist-packages as a package. `optional` ones belong to it in some
  # versions only; `dist` is the distribution's name where it differs from the package's.
  hostModule =
    {
      pname,
      apt ? "python3-${pname}",
      dist ? pname,
      modules ? pname,
      optional ? "",
      dependencies ? [ ],
      extra ? "",
    }:
    hostDerivation {
      pname = "${python.libPrefix}-${pname}";
      inherit
        apt
        dist
        modules
        optional
        sitePackages
        ;
      inherit (python) interpreter;
      propagated = map toString dependencies;
      script = ". ${./module.sh}\n${extra}";
      passthru = pythonModule dependencies;
    };
  pythonModule = dependencies: {
    pythonModule = python;
    inherit dependencies;
    requiredPythonModules = final.requiredPythonModules dependencies;
  };

  # Arguments of buildPythonPackage that are not mkDerivation's, or mean something else there.
  ownArguments = [
    "build-system"
    "checkPhase"
    "dependencies"
    "doCheck"
    "nativeCheckInputs"
    "pyproject"
  ];

  buildPythonPackage =
    attrsOrFunction:
    stdenv.mkDerivation (
      finalAttrs:
      let
        attrs = lib.toFunction attrsOrFunction finalAttrs;
        dependencies = lib.remove null (
          attrs.dependencies or [ ] ++ attrs.propagatedBuildInputs or [ ]
        );
      in
      assert lib.assertMsg (
        !(attrs ? format)
      ) "hostpkgs: buildPythonPackage has pyproject, no format (${attrs.pname})";
      {
        pythonImportsCheck = [ ];
      }
      // lib.optionalAttrs (attrs.pyproject or true) {
        # setup.py or pyproject.toml: whatever PEP 517 calls.
        configurePhase = "runHook preConfigure; runHook postConfigure";
        buildPhase = "pypaBuildPhase";
        installPhase = "pypaInstallPhase";
      }
      // removeAttrs attrs ownArguments
      // {
        name = "${python.libPrefix}-${attrs.pname}-${attrs.version}";
        nativeBuildInputs = [
          python
          final.build
          final.installer
        ]
        ++ attrs.build-system or [ ]
        ++ attrs.nativeBuildInputs or [ ];
        propagatedBuildInputs = dependencies;
        inherit sitePackages;
        pythonDependencies = final.requiredPythonModules dependencies;
        pythonRuntime = python.runtime;
        preHook = ". ${../stdenv/make-wrapper.sh}; . ${./build.sh}\n${attrs.preHook or ""}";
        preDistPhases = [ "pythonImportsCheckPhase" ];
        passthru = pythonModule dependencies // attrs.passthru or { };
      }
      # The checks run on what is installed.
      // lib.optionalAttrs (attrs ? checkPhase && attrs.doCheck or true) {
        doInstallCheck = true;
        installCheckPhase = attrs.checkPhase;
        nativeInstallCheckInputs = attrs.nativeCheckInputs or [ ];
      }
    );
in
{
  inherit python buildPythonPackage;
  buildPythonApplication = buildPythonPackage;
  # The given modules and all that they depend on, each once.
  requiredPythonModules =
    packages:
    lib.unique (
      lib.concatMap (package: [ package ] ++ package.requiredPythonModules) (
        lib.filter (package: package ? pythonModule) packages
      )
    );

  # What builds packages
  setuptools = hostModule {
    pname = "setuptools";
    modules = "setuptools pkg_resources";
    optional = "_distutils_hack distutils-precedence.pth";
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
    optional = "pep517 pyproject_hooks tomli toml";
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

  # What tnpu-nix itself depends on
  click = hostModule { pname = "click"; };
  drawsvg = hostModule { pname = "drawsvg"; };
  jinja2 = hostModule {
    pname = "jinja2";
    dependencies = [ final.markupsafe ];
  };
  markupsafe = hostModule { pname = "markupsafe"; };
  pydantic = hostModule {
    pname = "pydantic";
    dependencies = [ final.typing-extensions ];
    optional = "pydantic_core annotated_types typing_inspection";
  };
  typing-extensions = hostModule {
    pname = "typing-extensions";
    dist = "typing_extensions";
    modules = "typing_extensions.py";
  };
  tomlkit = hostModule { pname = "tomlkit"; };
  rich = hostModule {
    pname = "rich";
    dependencies = [ final.pygments ];
    optional = "markdown_it mdurl commonmark";
  };
  pygments = hostModule { pname = "pygments"; };
}

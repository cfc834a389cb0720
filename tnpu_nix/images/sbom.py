"""A bill of materials of an image, in CycloneDX, the format that scanners and archives read."""

from __future__ import annotations

import base64
import contextlib
import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from tnpu_nix import __version__
from tnpu_nix.errors import TnpuError
from tnpu_nix.images.inspection import BaseOf, Inspected, Part, PinOf
from tnpu_nix.registry.reference import is_digest, parse
from tnpu_nix.values import is_sri_sha256

if TYPE_CHECKING:
    from cyclonedx.model import ExternalReference, Property
    from cyclonedx.model.component import Component, Pedigree
    from cyclonedx.model.license import License
    from packageurl import PackageURL

_GITHUB = re.compile(
    r"(?:https?://(?:www\.)?github\.com/|(?:ssh://)?git@github\.com[:/])([^/]+)/([^/]+?)(?:\.git)?/?"
)
# Of our own: the identifiers of bills of materials are made of it and what they describe.
_NAMESPACE = uuid.UUID("9d8c1a52-6b0b-5f0e-8a4e-4a1d2c4d7f10")


def check_library() -> None:
    """Raise if the library that writes CycloneDX is not there."""
    try:
        import cyclonedx.model.bom  # noqa: F401
    except ImportError as error:
        raise TnpuError(
            "a bill of materials needs the Python package cyclonedx-python-lib",
            "pip install 'tnpu-nix[images]'",
        ) from error


def cyclonedx(image: Inspected, licences: Mapping[str, list[str]]) -> str:
    """Return the bill of materials of an image as CycloneDX 1.6 in JSON.

    The same image gives the same text: its time and its serial number come from the image.

    Args:
        licences: store path → SPDX identifiers or names, of those that are known.
    """
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6

    pins = {pin.name: pin for pin in image.pins}
    root = Component(
        name=image.tag.rpartition(":")[0] or image.image,
        version=image.tag.rpartition(":")[2] or None,
        type=ComponentType.CONTAINER,
        bom_ref="image",
        properties=[_property("tnpu:image:digest", image.digest)] if image.digest else [],
    )
    components = [_component(part, pins, licences.get(part.path, [])) for part in image.parts]
    components += [_base(image.base)] if image.base is not None else []
    layers = "\n".join(layer.diff_id for layer in image.layers)
    bom = Bom(components=components, serial_number=uuid.uuid5(_NAMESPACE, layers))
    bom.metadata.component = root
    bom.metadata.timestamp = _time(image.created)
    bom.metadata.tools.components.add(
        Component(name="tnpu-nix", version=__version__, type=ComponentType.APPLICATION)
    )
    bom.register_dependency(root, components)
    text: str = JsonV1Dot6(bom).output_as_string(indent=2)
    return text


def _time(created: str) -> datetime:
    try:
        when = datetime.fromisoformat(created)
    except ValueError:
        when = datetime.fromtimestamp(1, UTC)
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _component(part: Part, pins: Mapping[str, PinOf], licences: list[str]) -> Component:
    from cyclonedx.model.component import Component, ComponentType

    mine = [pins[name] for name in part.pins if name in pins]
    properties = [
        _property("nix:storePath", part.path),
        _property("nix:narHash", part.nar_hash),
        _property("nix:narSize", str(part.nar_size)),
        *(_property(f"tnpu:pin:{pin.name}:revision", pin.rev) for pin in mine),
        *(_property(f"tnpu:pin:{pin.name}:hash", pin.hash) for pin in mine),
    ]
    return Component(
        name=part.component or part.name,
        version=part.version or None,
        type=ComponentType.APPLICATION if part.component else ComponentType.LIBRARY,
        bom_ref=part.path,
        licenses=_licences(licences),
        purl=_purl(mine[0]) if mine else None,
        external_references=[_source(pin) for pin in mine],
        pedigree=_pedigree(mine) if mine else None,
        properties=properties,
    )


def _base(base: BaseOf) -> Component:
    """Return the image that the image is laid upon, as far as its labels can be read."""
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    hashes, purl, name, tag = [], None, base.reference, None
    if is_digest(base.digest):
        content = base.digest.removeprefix("sha256:")
        hashes.append(HashType(alg=HashAlgorithm.SHA_256, content=content))
    with contextlib.suppress(TnpuError):
        found = parse(base.reference)
        name, tag = found.repository, found.tag
        # As the type "oci" of the package URL specification has it: the digest is the version.
        where = {"repository_url": name, **({"tag": tag} if tag else {})}
        if hashes:
            purl = PackageURL("oci", None, name.rpartition("/")[2], base.digest, where)
    return Component(
        name=name or base.digest,
        version=tag,
        type=ComponentType.CONTAINER,
        bom_ref="base",
        hashes=hashes,
        purl=purl,
        properties=[_property("tnpu:base", str(base))],
    )


def _licences(names: list[str]) -> list[License]:
    """Return licences as CycloneDX has them: one expression, or identifiers and names."""
    from cyclonedx.contrib.license.exceptions import InvalidSpdxLicenseException
    from cyclonedx.contrib.license.factories import LicenseFactory

    factory = LicenseFactory()
    if len(names) == 1:
        return [factory.make_from_string(names[0])]
    made: list[License] = []
    for name in names:
        try:
            made.append(factory.make_with_id(name))
        except InvalidSpdxLicenseException:
            made.append(factory.make_with_name(name))
    return made


def _property(name: str, value: str) -> Property:
    from cyclonedx.model import Property

    return Property(name=name, value=value)


def _purl(pin: PinOf) -> PackageURL | None:
    from packageurl import PackageURL

    match = _GITHUB.fullmatch(pin.url)
    if match is None:
        return None
    return PackageURL("github", match.group(1), match.group(2), pin.rev)


def _source(pin: PinOf) -> ExternalReference:
    """Return where the source is, with the hash of the NAR of its checkout."""
    from cyclonedx.model import (
        ExternalReference,
        ExternalReferenceType,
        HashAlgorithm,
        HashType,
        XsUri,
    )

    hashes = []
    if is_sri_sha256(pin.hash):
        digest = base64.b64decode(pin.hash.removeprefix("sha256-")).hex()
        hashes.append(HashType(alg=HashAlgorithm.SHA_256, content=digest))
    return ExternalReference(
        type=ExternalReferenceType.VCS,
        url=XsUri(_uri(pin.url)),
        comment=f"{pin.name} at {pin.rev}; the hash is that of the checkout as a NAR",
        hashes=hashes,
    )


def _uri(url: str) -> str:
    """Return a URL without what a URI cannot hold; git takes more."""
    return quote(url, safe=":/?#[]@!$&'()*+,;=%~")


def _pedigree(pins: list[PinOf]) -> Pedigree:
    from cyclonedx.model import XsUri
    from cyclonedx.model.component import Commit, Pedigree

    return Pedigree(commits=[Commit(uid=pin.rev, url=XsUri(_uri(pin.url))) for pin in pins])

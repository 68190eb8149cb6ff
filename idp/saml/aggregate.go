package saml

import (
	"bufio"
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	dsig "github.com/russellhaering/goxmldsig"

	"github.com/gatehouse-id/gatehouse/idp/saml/safexml"
	"github.com/gatehouse-id/gatehouse/internal/webpage"
)

// aggregateTime is the time limit for the metadata of a federation to arrive.
const aggregateTime = 2 * time.Minute

// readDocument reads metadata: a document with one entity that is meant, or with entity that one of a federation's.
// With trust, that certificate must have signed the root or the entity, and only what is signed is returned. around
// are the elements around it, as far as they are not in it.
func readDocument(r io.Reader, entity string, trust *x509.Certificate, now time.Time) (root *node, around []*node, err error) {
	whole := bufio.NewReader(r)
	r = whole
	if head, _ := whole.Peek(webpage.Head); webpage.Is(head) { // a shorter document, or an error, is met again below
		return nil, nil, errors.New("it is an HTML page, not metadata: name the address of the metadata itself, or the file that is downloaded from it")
	}
	if entity != "" {
		return pick(r, entity, trust, now)
	}
	raw, err := bounded(r)
	if err != nil {
		return nil, nil, err
	}
	if root, err = safexml.Metadata.Parse(raw, map[string]bool{}); err != nil {
		return nil, nil, invalidMetadata(err)
	}
	root, err = signedBy(root, trust, now)
	return root, nil, err
}

// signedBy returns an element again, read from what trust has signed. Without trust it is returned as it is.
func signedBy(n *node, trust *x509.Certificate, now time.Time) (*node, error) {
	if trust == nil {
		return n, nil
	}
	signed, err := verifyElement(n, []*x509.Certificate{trust}, now)
	if err == nil && signed == nil {
		err = errors.New("it is not signed, but metadata_certificate requires a signature")
	}
	return signed, err
}

// pick reads one entity of a federation's metadata.
func pick(r io.Reader, entity string, trust *x509.Certificate, now time.Time) (root *node, around []*node, err error) {
	var seal *seal
	picked, err := safexml.Pick(r, entity, func(root *node) (*safexml.Sealed, error) {
		sig, err := root.Child(nsDsig, "Signature")
		if trust == nil || sig == nil || err != nil {
			return nil, err
		}
		if seal, err = openSeal(root, sig, trust, now); err != nil {
			return nil, err
		}
		return &seal.form, nil
	})
	switch {
	case err != nil:
		return nil, nil, invalidMetadata(err)
	case seal != nil:
		return picked.Entity, picked.Around, seal.check()
	}
	root, err = signedBy(picked.Entity, trust, now)
	return root, picked.Around, err
}

// seal is a valid signature of octets that are still to come.
type seal struct {
	form   safexml.Sealed
	hash   hash.Hash
	digest []byte
}

func (s *seal) check() error {
	if subtle.ConstantTimeCompare(s.hash.Sum(nil), s.digest) != 1 {
		return errors.New("the signature is not that of metadata_certificate")
	}
	return nil
}

// openSeal verifies the signature of the root over its SignedInfo. The element that it refers to comes later.
func openSeal(root, sig *node, trust *x509.Certificate, now time.Time) (*seal, error) {
	id := root.Attrs["ID"]
	if id == "" {
		return nil, errors.New("a signature in an element without ID")
	}
	if err := checkShape(sig, id); err != nil {
		return nil, err
	}
	octets, err := signedInfo(sig)
	if err != nil {
		return nil, err
	}
	// Only the octets that are signed are read from here on.
	info, err := safexml.Metadata.Parse(octets, map[string]bool{})
	if err != nil {
		return nil, err
	}
	method, err := info.One(nsDsig, "SignatureMethod")
	if err != nil {
		return nil, err
	}
	value, err := sig.One(nsDsig, "SignatureValue")
	if err != nil {
		return nil, err
	}
	raw, err := decodeBase64(value.Content)
	if err != nil || len(value.Elements) > 0 {
		return nil, errors.New("a malformed signature")
	}
	list, err := candidates(sig, []*x509.Certificate{trust}, now)
	if err != nil {
		return nil, err
	}
	der, err := derSignature(list[0], raw)
	if err != nil || list[0].CheckSignature(signatureAlgorithms[method.Attrs["Algorithm"]], octets, der) != nil {
		return nil, errors.New("the signature is not that of metadata_certificate")
	}
	return sealOf(info)
}

// sealOf reads the reference of a SignedInfo, whose form checkShape has checked.
func sealOf(info *node) (*seal, error) {
	ref, err := info.One(nsDsig, "Reference")
	if err != nil {
		return nil, err
	}
	transforms, err := ref.One(nsDsig, "Transforms")
	if err != nil {
		return nil, err
	}
	method, err := ref.One(nsDsig, "DigestMethod")
	if err != nil {
		return nil, err
	}
	value, err := ref.One(nsDsig, "DigestValue")
	if err != nil {
		return nil, err
	}
	out := &seal{hash: digestAlgorithms[method.Attrs["Algorithm"]].New()}
	if out.digest, err = decodeBase64(value.Content); err != nil {
		return nil, err
	}
	exclusive, prefixes, err := canonicalization(transforms.Elements[1])
	out.form = safexml.Sealed{Exclusive: exclusive, Prefixes: prefixes, Octets: out.hash}
	return out, err
}

// signedInfo returns the canonical octets of the SignedInfo of a signature.
func signedInfo(sig *node) ([]byte, error) {
	info, err := sig.One(nsDsig, "SignedInfo")
	if err != nil {
		return nil, err
	}
	method, err := info.One(nsDsig, "CanonicalizationMethod")
	if err != nil {
		return nil, err
	}
	exclusive, prefixes, err := canonicalization(method)
	if err != nil {
		return nil, err
	}
	by := dsig.MakeC14N11Canonicalizer()
	if exclusive {
		by = dsig.MakeC14N10ExclusiveCanonicalizerWithPrefixList(strings.Join(prefixes, " "))
	}
	return by.Canonicalize(info.Detached())
}

// canonicalization reads an algorithm that checkCanonicalization has accepted.
func canonicalization(n *node) (exclusive bool, prefixes []string, err error) {
	inclusive, err := n.Child(nsExcC14N, "InclusiveNamespaces")
	if inclusive != nil {
		prefixes = strings.Fields(inclusive.Attrs["PrefixList"])
	}
	return n.Attrs["Algorithm"] == nsExcC14N, prefixes, err
}

// OpenMetadata reads a metadata document, as readDocument does, without judging what it says.
func OpenMetadata(r io.Reader, entity string, trust *x509.Certificate, now time.Time) (root *Node, around []*Node, err error) {
	root, around, err = readDocument(r, entity, trust, now)
	if err == nil && !root.Is(nsMetadata, "EntityDescriptor") && !root.Is(nsMetadata, "EntitiesDescriptor") {
		err = errors.New("it is neither an EntityDescriptor nor an EntitiesDescriptor")
	}
	return root, around, err
}

// Version holds the validators of a copy of metadata, for a request for a newer one. The zero Version asks without a
// condition. (RFC 9110 13.1)
type Version struct{ etag, modified string }

// VersionOf returns the version of the metadata in an answer.
func VersionOf(res *http.Response) Version {
	return Version{res.Header.Get("ETag"), res.Header.Get("Last-Modified")}
}

func (v Version) ask(req *http.Request) {
	if v.etag != "" {
		req.Header.Set("If-None-Match", v.etag)
	}
	if v.modified != "" {
		req.Header.Set("If-Modified-Since", v.modified)
	}
}

// ErrUnchanged says that a server has no metadata newer than our copy.
var ErrUnchanged = errors.New("the metadata has not changed")

// Open opens what has been written where metadata is: the metadata itself, a file, or an https address, which
// client asks. answered is told of the answer. Metadata of a federation takes its time. have is the version of our
// copy: ErrUnchanged means that there is no newer one.
func Open(ctx context.Context, source string, federation bool, client *http.Client, have Version,
	answered func(*http.Response),
) (io.ReadCloser, error) {
	switch {
	case isXML(source):
		return inMemory(source), nil
	case !isRemote(source):
		return openFile(source)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, source, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/samlmetadata+xml, application/xml, text/xml")
	have.ask(req)
	if federation {
		patient := *client
		patient.Timeout, client = aggregateTime, &patient
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, withoutAddress(err)
	}
	answered(res)
	switch {
	case res.StatusCode == http.StatusOK:
		return res.Body, nil
	case res.StatusCode == http.StatusNotModified && have != Version{}:
		err = ErrUnchanged
	default:
		err = fmt.Errorf("the answer is %s", res.Status)
	}
	_ = res.Body.Close()
	return nil, err
}

// FetchTime returns how long an attempt to read metadata takes at most.
func FetchTime(federation bool) time.Duration {
	if federation {
		return aggregateTime
	}
	return timeout
}

// openFile refuses files that can block a reader, such as a pipe.
func openFile(name string) (io.ReadCloser, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return nil, err
	}
	return os.Open(name)
}

// inMemory is a document in the configuration itself.
func inMemory(source string) io.ReadCloser { return io.NopCloser(bytes.NewReader([]byte(source))) }

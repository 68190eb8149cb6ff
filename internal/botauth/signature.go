package botauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/textproto"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// signature is a signature of a request with what it covers. (RFC 9421 4)
type signature struct {
	label   string
	covered httpsfv.InnerList
	value   []byte
}

const (
	maxHeaders    = 8 << 10 // bytes of the headers of signatures
	maxComponents = 32
	maxLabels     = 4
)

var errMalformed = errors.New("the signature of the request is malformed")

// signaturesOf returns the signatures of a request with a tag, at most maxLabels.
func signaturesOf(r *http.Request, tag string) (out []signature, err error) {
	inputs, values := r.Header.Values("Signature-Input"), r.Header.Values("Signature")
	if len(strings.Join(inputs, ""))+len(strings.Join(values, "")) > maxHeaders {
		return nil, errMalformed
	}
	described, err := httpsfv.UnmarshalDictionary(inputs)
	if err != nil {
		return nil, errMalformed
	}
	made, err := httpsfv.UnmarshalDictionary(values)
	if err != nil {
		return nil, errMalformed
	}
	for _, label := range described.Names() {
		member, _ := described.Get(label)
		list, ok := member.(httpsfv.InnerList)
		if !ok || len(list.Items) > maxComponents {
			return nil, errMalformed
		}
		if text(list.Params, "tag") != tag {
			continue
		}
		member, _ = made.Get(label)
		item, ok := member.(httpsfv.Item)
		value, isBytes := item.Value.([]byte)
		if !ok || !isBytes || len(out) == maxLabels {
			return nil, errMalformed
		}
		out = append(out, signature{label, list, value})
	}
	return out, nil
}

// text returns a parameter that is a text, or "".
func text(p *httpsfv.Params, name string) string {
	v, _ := p.Get(name)
	s, _ := v.(string)
	return s
}

// seconds returns a parameter that is a time.
func seconds(p *httpsfv.Params, name string) (time.Time, bool) {
	v, _ := p.Get(name)
	n, ok := v.(int64)
	return time.Unix(n, 0), ok
}

// covers reports whether the signature covers a component, with this key for a member of a dictionary.
func (s *signature) covers(name, key string) bool {
	for _, c := range s.covered.Items {
		if c.Value == name && text(c.Params, "key") == key {
			return true
		}
	}
	return false
}

// base returns the signature base. (RFC 9421 2.5)
func (s *signature) base(r *http.Request) (string, error) {
	var b strings.Builder
	seen := map[string]bool{}
	for _, c := range s.covered.Items {
		id, err := httpsfv.Marshal(c)
		if err != nil || seen[id] {
			return "", errMalformed
		}
		seen[id] = true
		value, err := component(r, c)
		if err != nil {
			return "", err
		}
		b.WriteString(id + ": " + value + "\n")
	}
	params, err := httpsfv.Marshal(s.covered)
	if err != nil {
		return "", errMalformed
	}
	return b.String() + `"@signature-params": ` + params, nil
}

// component returns the value of a component of a request. (RFC 9421 2.1 and 2.2) A component that is not known is an
// error: what cannot be verified is not taken for verified.
func component(r *http.Request, c httpsfv.Item) (string, error) {
	name, ok := c.Value.(string)
	if !ok || name != strings.ToLower(name) {
		return "", errMalformed
	}
	params := c.Params.Names()
	if !strings.HasPrefix(name, "@") {
		return field(r, name, c.Params, params)
	}
	if len(params) > 0 {
		return "", fmt.Errorf("parameters of %s are not supported", name)
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	authority := strings.ToLower(r.Host)
	authority = strings.TrimSuffix(authority, map[string]string{"http": ":80", "https": ":443"}[scheme])
	switch name {
	case "@method":
		return r.Method, nil
	case "@authority":
		return authority, nil
	case "@scheme":
		return scheme, nil
	case "@request-target":
		return r.RequestURI, nil
	case "@target-uri":
		return scheme + "://" + authority + r.URL.RequestURI(), nil
	case "@path":
		if path := r.URL.EscapedPath(); path != "" {
			return path, nil
		}
		return "/", nil
	case "@query":
		return "?" + r.URL.RawQuery, nil
	}
	return "", fmt.Errorf("the component %q is not supported", name)
}

// field returns the value of a header field, or of one member of it.
func field(r *http.Request, name string, p *httpsfv.Params, params []string) (string, error) {
	values := r.Header.Values(textproto.CanonicalMIMEHeaderKey(name))
	if name == "host" {
		values = []string{r.Host}
	}
	if len(values) == 0 {
		return "", fmt.Errorf("the field %q that is signed is missing", name)
	}
	switch {
	case len(params) == 0:
		out := make([]string, len(values))
		for i, v := range values {
			out[i] = strings.TrimSpace(v)
		}
		return strings.Join(out, ", "), nil
	case len(params) > 1 || params[0] != "key":
		return "", fmt.Errorf("parameters of the field %q are not supported", name)
	}
	dict, err := httpsfv.UnmarshalDictionary(values)
	if err != nil {
		return "", errMalformed
	}
	member, ok := dict.Get(text(p, "key"))
	if !ok {
		return "", fmt.Errorf("the member of the field %q that is signed is missing", name)
	}
	return httpsfv.Marshal(member)
}

var errWrong = errors.New("the signature of the request is wrong")

// verify checks a signature by a key of an algorithm that RFC 9421 3.3 defines for it. alg is that of the signature, ""
// where it names none.
func verify(public any, alg, base string, value []byte) error {
	var of string
	var ok bool
	switch key := public.(type) {
	case ed25519.PublicKey:
		of, ok = "ed25519", ed25519.Verify(key, []byte(base), value)
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() || len(value) != 64 {
			return errWrong
		}
		sum := sha256.Sum256([]byte(base))
		of, ok = "ecdsa-p256-sha256", ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(value[:32]), new(big.Int).SetBytes(value[32:]))
	case *rsa.PublicKey:
		sum := sha512.Sum512([]byte(base))
		of, ok = "rsa-pss-sha512", rsa.VerifyPSS(key, crypto.SHA512, sum[:], value, &rsa.PSSOptions{SaltLength: 64}) == nil
	}
	if !ok || alg != "" && alg != of {
		return errWrong
	}
	return nil
}

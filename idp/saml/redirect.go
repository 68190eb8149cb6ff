package saml

import (
	"bytes"
	"compress/flate"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
)

const (
	// maxInflated limits the size of an inflated message of the redirect binding: a few kilobytes can expand to
	// hundreds of megabytes.
	maxInflated = 64 << 10
	maxDeflated = 64 << 10 // in the query, as base64

	encodingDeflate = "urn:oasis:names:tc:SAML:2.0:bindings:URL-Encoding:DEFLATE"
	algRSASHA256    = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
)

// Names of parameters and form fields. (SAML bindings 3.4.4.1, 3.5.4, 3.6.3)
const (
	paramRequest  = "SAMLRequest"
	paramResponse = "SAMLResponse"
	paramRelay    = "RelayState"
	paramAlg      = "SigAlg"
	paramSig      = "Signature"
	paramArtifact = "SAMLart"
	paramEncoding = "SAMLEncoding"
)

// redirectURL puts a message into a signed query. param is SAMLRequest or SAMLResponse. An existing query of the
// endpoint comes first and is not signed, since it is not part of the message. (SAML bindings 3.4.4.1)
func redirectURL(random io.Reader, endpoint, param string, message []byte, relay string, key *idp.Key) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", fmt.Errorf("address of the provider: %w", err)
	}
	deflated, err := deflate(message)
	if err != nil {
		return "", err
	}
	octets := param + "=" + url.QueryEscape(deflated)
	if relay != "" {
		octets += "&" + paramRelay + "=" + url.QueryEscape(relay)
	}
	octets += "&" + paramAlg + "=" + url.QueryEscape(algRSASHA256)
	sum := sha256.Sum256([]byte(octets))
	sig, err := key.Signer.Sign(random, sum[:], crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	query := octets + "&" + paramSig + "=" + url.QueryEscape(base64.StdEncoding.EncodeToString(sig))
	if u.RawQuery != "" {
		query = u.RawQuery + "&" + query
	}
	u.RawQuery, u.Fragment, u.RawFragment = query, "", ""
	return u.String(), nil
}

func deflate(message []byte) (string, error) {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := w.Write(message); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// inflate reverses deflate, for up to maxInflated bytes.
func inflate(s string) ([]byte, error) {
	if len(s) > maxDeflated {
		return nil, &idp.Invalid{Reason: "the message in the query is too long"}
	}
	raw, err := decodeBase64(s)
	if err != nil {
		return nil, &idp.Invalid{Reason: "the message in the query is not base64"}
	}
	message, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw)), maxInflated+1))
	switch {
	case err != nil:
		return nil, &idp.Invalid{Reason: "the message in the query is not deflated"}
	case len(message) > maxInflated:
		return nil, &idp.Invalid{Reason: "the inflated message in the query is too long"}
	}
	return message, nil
}

// redirected is a message from a query.
type redirected struct {
	Param  string // SAMLRequest or SAMLResponse
	Raw    []byte // inflated
	Relay  string
	alg    string
	sig    []byte
	octets []byte // the signed part of the query
}

// parseRedirect reads the query of the redirect binding. The signature covers the query as the sender has
// percent-encoded it. So each parameter must occur once and its name must not be encoded; otherwise another reader of
// the same query might see another message.
func parseRedirect(query string) (*redirected, error) {
	m, err := parseQuery(query)
	if err == nil && !m.Signed() {
		return nil, &idp.Invalid{Reason: "the message in the query is not signed"}
	}
	return m, err
}

// parseQuery is parseRedirect for a message that need not be signed.
func parseQuery(query string) (*redirected, error) {
	raw, values := map[string]string{}, map[string]string{}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(name)
		if err != nil || plain == "" {
			continue
		}
		switch plain {
		case paramRequest, paramResponse, paramRelay, paramAlg, paramSig, paramEncoding:
		default:
			continue // a parameter of the provider, neither signed nor read
		}
		if _, twice := raw[plain]; twice || plain != name {
			return nil, &idp.Invalid{Reason: "a parameter of the query occurs twice or has an encoded name"}
		}
		if values[plain], err = url.QueryUnescape(value); err != nil {
			return nil, &idp.Invalid{Reason: "a parameter of the query has invalid percent-encoding"}
		}
		raw[plain] = value
	}
	m := &redirected{Param: paramRequest, Relay: values[paramRelay], alg: values[paramAlg]}
	_, request := raw[paramRequest]
	_, response := raw[paramResponse]
	if request == response {
		return nil, &idp.Invalid{Reason: "the query has no message, or two of them"}
	}
	if response {
		m.Param = paramResponse
	}
	if e, ok := values[paramEncoding]; ok && e != encodingDeflate {
		return nil, &idp.Invalid{Reason: "the message in the query has an unknown encoding"}
	}
	if (m.alg == "") != (values[paramSig] == "") {
		return nil, &idp.Invalid{Reason: "the message in the query is not signed"}
	}
	var err error
	if m.sig, err = decodeBase64(values[paramSig]); err != nil {
		return nil, &idp.Invalid{Reason: "the signature in the query is not base64"}
	}
	// SAML bindings 3.4.4.1: SAMLRequest or SAMLResponse, RelayState if present, SigAlg, in this order.
	octets := m.Param + "=" + raw[m.Param]
	if relay, ok := raw[paramRelay]; ok {
		octets += "&" + paramRelay + "=" + relay
	}
	m.octets = []byte(octets + "&" + paramAlg + "=" + raw[paramAlg])
	m.Raw, err = inflate(values[m.Param])
	return m, err
}

// verify checks the signature with the provider's keys.
func (m *redirected) verify(provider *idpMetadata, now time.Time) error {
	return provider.verifyQuery(now, m.alg, m.octets, m.sig)
}

// Signed reports whether the query has a signature.
func (m *redirected) Signed() bool { return m.alg != "" }

// checkSigner refuses key pairs that cannot make the signatures that providers expect.
func checkSigner(key *idp.Key) error {
	public, ok := key.Signer.Public().(*rsa.PublicKey)
	switch {
	case !ok:
		return &idp.UnfitKey{Name: key.Name, Problem: "is not RSA, which SAML signatures need"}
	case public.N.BitLen() < 2048:
		return &idp.UnfitKey{Name: key.Name, Problem: "is shorter than 2048 bits"}
	case key.Certificate == nil:
		return &idp.UnfitKey{Name: key.Name, Problem: "has no certificate"}
	}
	return nil
}

// post puts a message into a form. The signature is inside the message. (SAML bindings 3.5.4)
func post(endpoint, param string, message []byte, relay string) (*idp.Next, error) {
	if err := validEndpoint(endpoint); err != nil {
		return nil, err
	}
	f := &idp.Form{Action: endpoint, Fields: []idp.Field{{Name: param, Value: base64.StdEncoding.EncodeToString(message)}}}
	if relay != "" {
		f.Fields = append(f.Fields, idp.Field{Name: paramRelay, Value: relay})
	}
	return &idp.Next{Form: f}, nil
}

// hasProtocolParameters reports whether the query of an address has a parameter that a message would bring, or cannot
// be read. A message there would be in the query twice, and readers differ in which one they take.
func hasProtocolParameters(u *url.URL) bool {
	query, err := url.ParseQuery(u.RawQuery)
	for _, name := range []string{paramRequest, paramResponse, paramRelay, paramAlg, paramSig, paramArtifact, paramEncoding} {
		if query.Has(name) {
			return true
		}
	}
	return err != nil
}

// validEndpoint refuses addresses that are not http or https, such as javascript:.
func validEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("the provider's address in its metadata is neither http nor https")
	}
	return nil
}

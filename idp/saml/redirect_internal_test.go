package saml

import (
	"bytes"
	"compress/flate"
	"crypto"
	"crypto/rand"
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/idp"
)

const logoutMessageXML = `<samlp:LogoutRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" ID="_1"/>`

// signedQuery returns the query of a message that the scripted provider has signed.
func signedQuery(t *testing.T, message, relay string, key *idp.Key) string {
	t.Helper()
	u, err := redirectURL(rand.Reader, "https://sp.example.com/slo", paramRequest, []byte(message), relay, key)
	if err != nil {
		t.Fatal(err)
	}
	_, query, _ := strings.Cut(u, "?")
	return query
}

func TestRedirectRoundTrip(t *testing.T) {
	t.Parallel()
	provider, err := parseMetadata([]byte(metadataOf(entity, otherKey(), idpKey())), nil, start)
	if err != nil {
		t.Fatal(err)
	}
	for _, relay := range []string{"", flowID, "https://evil.example/", "x&SAMLRequest=y", "a b+c%20=\r\nX: y", "ünï"} {
		query := signedQuery(t, logoutMessageXML, relay, idpKey())
		m, err := parseRedirect(query)
		if err != nil {
			t.Fatalf("parseRedirect(%q): %v", query, err)
		}
		if m.Param != paramRequest || string(m.Raw) != logoutMessageXML || m.Relay != relay {
			t.Errorf("parseRedirect(%q) = %q, %q, want the message and %q", query, m.Raw, m.Relay, relay)
		}
		if err := m.verify(provider, start); err != nil {
			t.Errorf("verify with RelayState %q: %v", relay, err)
		}
		if strings.ContainsAny(query, " \r\n") || strings.Count(query, paramRequest+"=") != 1 {
			t.Errorf("query %q is not encoded", query)
		}
	}
}

// TestRedirectOtherEncoding: a sender may write percent-encoding in lower case. The signature covers the octets as
// sent.
func TestRedirectOtherEncoding(t *testing.T) {
	t.Parallel()
	provider, err := parseMetadata([]byte(metadataOf(entity, idpKey())), nil, start)
	if err != nil {
		t.Fatal(err)
	}
	lower := func(s string) string {
		for i := range len(s) - 2 {
			if s[i] == '%' {
				s = s[:i+1] + strings.ToLower(s[i+1:i+3]) + s[i+3:]
			}
		}
		return s
	}
	octets, _, _ := strings.Cut(signedQuery(t, logoutMessageXML, "a/b", idpKey()), "&"+paramSig+"=")
	octets = lower(octets)
	sig, err := idpKey().Signer.Sign(rand.Reader, sum(octets), crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	m, err := parseRedirect("x=1&" + octets + "&" + paramSig + "=" + lower(url.QueryEscape(base64.StdEncoding.EncodeToString(sig))))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.verify(provider, start); err != nil || m.Relay != "a/b" {
		t.Errorf("verify = %v, RelayState %q", err, m.Relay)
	}
}

func TestRedirectRefused(t *testing.T) {
	t.Parallel()
	provider, err := parseMetadata([]byte(metadataOf(entity, idpKey())), nil, start)
	if err != nil {
		t.Fatal(err)
	}
	good := signedQuery(t, logoutMessageXML, "relay", idpKey())
	other := signedQuery(t, `<samlp:LogoutRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" ID="_2"/>`, "relay", idpKey())
	message := func(q string) string { m, _, _ := strings.Cut(q, "&"); return m }
	rest := func(q string) string { _, r, _ := strings.Cut(q, "&"); return r }
	alg := paramAlg + "=" + url.QueryEscape(algRSASHA256)
	for name, query := range map[string]string{
		"attack 141: the signature is removed":      good[:strings.Index(good, "&"+paramSig)],
		"attack 141: the signature is empty":        good[:strings.Index(good, "&"+paramSig)] + "&" + paramSig + "=",
		"attack 141: signed by another key":         signedQuery(t, logoutMessageXML, "relay", otherKey()),
		"attack 142: the message is another one":    message(other) + "&" + rest(good),
		"attack 142: the RelayState is another one": strings.Replace(good, "=relay", "=other", 1),
		"attack 142: the RelayState is taken away":  strings.Replace(good, paramRelay+"=relay&", "", 1),
		"SHA-1": strings.Replace(good, alg,
			paramAlg+"="+url.QueryEscape("http://www.w3.org/2000/09/xmldsig#rsa-sha1"), 1),
		"HMAC": strings.Replace(good, alg,
			paramAlg+"="+url.QueryEscape("http://www.w3.org/2001/04/xmldsig-more#hmac-sha256"), 1),
		"no algorithm":                                strings.Replace(good, alg+"&", "", 1),
		"attack 152: two messages":                    message(other) + "&" + good,
		"attack 152: a request and a response":        good + "&" + paramResponse + "=" + strings.TrimPrefix(message(other), paramRequest+"="),
		"attack 152: a message under an escaped name": "%53AMLRequest=" + strings.TrimPrefix(message(other), paramRequest+"=") + "&" + good,
		"attack 152: a parameter twice":               good + "&" + paramRelay + "=evil",
		"attack 149: an unknown encoding":             good + "&" + paramEncoding + "=none",
		"attack 149: not base64":                      strings.Replace(good, message(good), paramRequest+"=*", 1),
		"attack 149: not deflated": strings.Replace(good, message(good),
			paramRequest+"="+url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(logoutMessageXML))), 1),
		"attack 149: the message is half of one": strings.Replace(good, message(good), message(good)[:40], 1),
		"attack 149: broken percent-encoding":    good + "&" + paramRelay + "=%zz",
		"no message":                             rest(good),
		"the parameter is there without a value": strings.Replace(good, message(good), paramRequest, 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := parseRedirect(query)
			if err == nil {
				err = m.verify(provider, start)
			}
			if !isInvalid(err) {
				t.Errorf("%s: %v, want it refused", query, err)
			}
		})
	}
}

func TestInflateBounds(t *testing.T) {
	t.Parallel()
	bomb := func(n int) string {
		var b bytes.Buffer
		w, err := flate.NewWriter(&b, flate.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(bytes.Repeat([]byte("<a>"), n/3))
		w.Close()
		return base64.StdEncoding.EncodeToString(b.Bytes())
	}
	for _, tt := range []struct {
		name string
		size int
		good bool
	}{
		{"attack 154: what just fits", maxInflated, true},
		{"attack 154: one kilobyte too much", maxInflated + 1024, false},
		{"attack 154: seven megabytes in nine kilobytes", 7 << 20, false},
		{"attack 154: a hundred megabytes", 100 << 20, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			packed := bomb(tt.size)
			raw, err := inflate(packed)
			if (err == nil) != tt.good || err != nil && !isInvalid(err) {
				t.Errorf("inflate of %d bytes = %d bytes, %v", len(packed), len(raw), err)
			}
			if cap(raw) > 4*maxInflated {
				t.Errorf("inflate takes %d bytes", cap(raw))
			}
		})
	}
	if _, err := inflate(strings.Repeat("A", maxDeflated+4)); !isInvalid(err) {
		t.Errorf("inflate of a long message = %v, want it refused", err)
	}
}

func FuzzParseRedirect(f *testing.F) {
	provider, err := parseMetadata([]byte(metadataOf(entity, idpKey())), nil, start)
	if err != nil {
		f.Fatal(err)
	}
	u, err := redirectURL(rand.Reader, "https://sp.example.com/", paramRequest, []byte(logoutMessageXML), "relay", otherKey())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(strings.TrimPrefix(u, "https://sp.example.com/?"))
	f.Add("SAMLResponse=&SigAlg=&Signature=")
	f.Fuzz(func(t *testing.T, query string) {
		m, err := parseRedirect(query)
		if err != nil {
			return
		}
		if len(m.Raw) > maxInflated {
			t.Errorf("%d bytes", len(m.Raw))
		}
		if m.verify(provider, start) == nil {
			t.Error("nobody has signed this")
		}
	})
}

package mldsa

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// vector is an example of RFC 9964, appendix A.1: a key and a JSON Web Signature by it.
type vector struct {
	JWK struct {
		Public  string `json:"pub"`
		Private string `json:"priv"`
	} `json:"jwk"`
	JWS string `json:"jws"`
}

func vectors(t *testing.T) map[Parameters]vector {
	t.Helper()
	raw, err := os.ReadFile("testdata/rfc9964.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]vector
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	out := map[Parameters]vector{}
	for _, p := range []Parameters{MLDSA44(), MLDSA65(), MLDSA87()} {
		out[p] = all[p.String()]
	}
	return out
}

func decode(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) == 0 {
		t.Fatalf("decode %q: %v", text, err)
	}
	return raw
}

func TestVectors(t *testing.T) {
	t.Parallel()
	for p, v := range vectors(t) {
		private, err := newPrivateKey(p, decode(t, v.JWK.Private))
		if err != nil {
			t.Fatal(err)
		}
		if got := private.PublicKey().Bytes(); !bytes.Equal(got, decode(t, v.JWK.Public)) {
			t.Errorf("%s: the seed makes another public key than in the RFC", p)
		}
		public, err := NewPublicKey(p, decode(t, v.JWK.Public))
		if err != nil || !public.Equal(private.Public()) || public.Parameters() != p {
			t.Fatalf("%s: NewPublicKey = %v, %v", p, public, err)
		}
		end := strings.LastIndexByte(v.JWS, '.')
		message, signature := []byte(v.JWS[:end]), decode(t, v.JWS[end+1:])
		if err := Verify(public, message, signature); err != nil {
			t.Errorf("%s: the signature of the RFC: %v", p, err)
		}
		message[0]++
		if Verify(public, message, signature) == nil {
			t.Errorf("%s: a signature of another message is valid", p)
		}
	}
}

func TestSign(t *testing.T) {
	t.Parallel()
	var keys []*PrivateKey
	for _, p := range []Parameters{MLDSA44(), MLDSA65(), MLDSA87()} {
		key, err := GenerateKey(p)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
		again, err := newPrivateKey(p, key.Bytes())
		if err != nil || !again.PublicKey().Equal(key.PublicKey()) {
			t.Errorf("%s: the seed of a key makes another one: %v", p, err)
		}
	}
	for _, key := range keys {
		p, message := key.PublicKey().Parameters(), []byte("a message")
		first, err := key.Sign(nil, message, nil)
		if err != nil || len(first) != p.SignatureSize() {
			t.Fatalf("%s: Sign = %d bytes, %v, want %d", p, len(first), err, p.SignatureSize())
		}
		if second, err := key.Sign(nil, message, crypto.Hash(0)); err != nil || bytes.Equal(first, second) {
			t.Errorf("%s: two signatures are the same, or %v: they must be hedged", p, err)
		}
		if _, err := key.Sign(nil, message, crypto.SHA256); err == nil {
			t.Errorf("%s signs a hash", p)
		}
		for _, other := range keys {
			if got, want := Verify(other.PublicKey(), message, first) == nil, other == key; got != want {
				t.Errorf("a signature of %s at a key of %s: valid = %t, want %t", p, other.PublicKey().Parameters(), got, want)
			}
		}
		for _, n := range []int{0, 1, len(first) - 1} {
			if Verify(key.PublicKey(), message, first[:n]) == nil {
				t.Errorf("%s: %d bytes of a signature are valid", p, n)
			}
		}
		if Verify(key.PublicKey(), message, append(bytes.Clone(first), 0)) == nil {
			t.Errorf("%s: a signature with a further byte is valid", p)
		}
		for _, n := range []int{0, 31, 33, 64} {
			if _, err := newPrivateKey(p, make([]byte, n)); err == nil {
				t.Errorf("%s: %d bytes are a seed", p, n)
			}
		}
		for _, n := range []int{0, p.PublicKeySize() - 1, p.PublicKeySize() + 1} {
			if _, err := NewPublicKey(p, make([]byte, n)); err == nil {
				t.Errorf("%s: %d bytes are a public key", p, n)
			}
		}
	}
}

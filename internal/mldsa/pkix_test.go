package mldsa

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"os"
	"testing"
)

// example returns the DER of an example of RFC 9881, appendix C.
func example(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/rfc9881/" + name)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		t.Fatalf("%s is not PEM", name)
	}
	return block.Bytes
}

func TestKeysInTheFormsOfX509(t *testing.T) {
	t.Parallel()
	for _, p := range []Parameters{MLDSA44(), MLDSA65(), MLDSA87()} {
		read, err := ParsePKIXPublicKey(example(t, p.String()+".pub"))
		public, ok := read.(*PublicKey)
		if !ok || public.Parameters() != p {
			t.Fatalf("ParsePKIXPublicKey(%s) = %T, %v", p, read, err)
		}
		if der, err := MarshalPKIXPublicKey(public); err != nil || !bytes.Equal(der, example(t, p.String()+".pub")) {
			t.Errorf("MarshalPKIXPublicKey(%s) = %x, %v", p, der, err)
		}
		for _, form := range []string{"seed", "both"} {
			read, err := ParsePKCS8PrivateKey(example(t, p.String()+"-"+form+".priv"))
			private, ok := read.(*PrivateKey)
			if !ok || !private.PublicKey().Equal(public) {
				t.Fatalf("ParsePKCS8PrivateKey(%s, %s) = %T, %v, or it is of another public key", p, form, read, err)
			}
			if der, err := MarshalPKCS8PrivateKey(private); err != nil || !bytes.Equal(der, example(t, p.String()+"-seed.priv")) {
				t.Errorf("MarshalPKCS8PrivateKey(%s) = %x, %v", p, der, err)
			}
		}
	}
}

// TestOtherKeys: keys that crypto/x509 knows are read and written as it does.
func TestOtherKeys(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if read, err := ParsePKCS8PrivateKey(der); err != nil || !key.Equal(read) {
		t.Errorf("ParsePKCS8PrivateKey(EC) = %T, %v", read, err)
	}
	if der, err = MarshalPKIXPublicKey(key.Public()); err != nil {
		t.Fatal(err)
	}
	if read, err := ParsePKIXPublicKey(der); err != nil || !key.PublicKey.Equal(read) {
		t.Errorf("ParsePKIXPublicKey(EC) = %T, %v", read, err)
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	t.Parallel()
	seed, public := example(t, "ML-DSA-44-seed.priv"), example(t, "ML-DSA-44.pub")
	for name, der := range map[string][]byte{
		"expanded alone":                   example(t, "ML-DSA-44-expanded.priv"),
		"seed and expanded key of another": example(t, "bad-ML-DSA-44-1.priv"),
		"short seed":                       bytes.Replace(seed[:len(seed)-1], []byte{0x30, 0x34}, []byte{0x30, 0x33}, 1),
		"something after it":               append(bytes.Clone(seed), 0),
		"a public key":                     public,
		"nothing":                          nil,
	} {
		key, err := ParsePKCS8PrivateKey(der)
		if err == nil || errors.Is(err, ErrNoSeed) != (name == "expanded alone") {
			t.Errorf("ParsePKCS8PrivateKey(%s) = %T, %v, want an error", name, key, err)
		}
	}
	for name, der := range map[string][]byte{
		"that of ML-DSA-65 as ML-DSA-44": bytes.Replace(example(t, "ML-DSA-65.pub"), []byte{3, 4, 3, 18}, []byte{3, 4, 3, 17}, 1),
		"something after it":             append(bytes.Clone(public), 0),
		"a private key":                  seed,
	} {
		if key, err := ParsePKIXPublicKey(der); err == nil {
			t.Errorf("ParsePKIXPublicKey(%s) = %T, want an error", name, key)
		}
	}
}

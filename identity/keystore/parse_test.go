package keystore

import (
	"bytes"
	"crypto"
	"crypto/dsa" //nolint:staticcheck // what must be refused
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var keyTime = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// testKeys are made once: RSA keys take long.
var testKeys = sync.OnceValue(func() (k struct {
	rsa2048, rsa2048b, rsa4096 *rsa.PrivateKey
	p256, p384, p521, p224     *ecdsa.PrivateKey
},
) {
	k.rsa2048, k.rsa2048b, k.rsa4096 = mustRSA(2048), mustRSA(2048), mustRSA(4096)
	k.p256, k.p384, k.p521, k.p224 = mustEC(elliptic.P256()), mustEC(elliptic.P384()), mustEC(elliptic.P521()), mustEC(elliptic.P224())
	return k
})

func mustRSA(bits int) *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, bits)) }

func mustEC(c elliptic.Curve) *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(c, rand.Reader)) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// armor is PEM in Base64.
func armor(kind string, der []byte) string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func join(parts ...string) string {
	var all []byte
	for _, p := range parts {
		all = append(all, must(base64.StdEncoding.DecodeString(p))...)
	}
	return base64.StdEncoding.EncodeToString(all)
}

func certificateOf(key crypto.Signer, from, to time.Time) string {
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: from, NotAfter: to}
	return armor("CERTIFICATE", must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)))
}

func goodCertificate(key crypto.Signer) string {
	return certificateOf(key, keyTime.Add(-time.Hour), keyTime.AddDate(1, 0, 0))
}

func pkcs8(key any) string { return armor("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key))) }

func pkcs1(key *rsa.PrivateKey) string {
	return armor("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
}

func sec1(key *ecdsa.PrivateKey) string {
	return armor("EC PRIVATE KEY", must(x509.MarshalECPrivateKey(key)))
}

func publicOf(key crypto.Signer) string {
	return armor("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(key.Public())))
}

func TestParsePair(t *testing.T) {
	t.Parallel()
	k := testKeys()
	parameters := armor("EC PARAMETERS", must(asn1.Marshal(asn1.ObjectIdentifier{1, 2, 840, 10045, 3, 1, 7})))
	for name, tt := range map[string]struct{ kind, private, public string }{
		"RSA in PKCS#8":                {RSA, pkcs8(k.rsa2048), goodCertificate(k.rsa2048)},
		"RSA in PKCS#1":                {RSA, pkcs1(k.rsa4096), goodCertificate(k.rsa4096)},
		"RSA with a public key":        {RSA, pkcs8(k.rsa2048), publicOf(k.rsa2048)},
		"RSA with a PKCS#1 public key": {RSA, pkcs8(k.rsa2048), armor("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&k.rsa2048.PublicKey))},
		"P-256 in SEC1":                {EC, sec1(k.p256), goodCertificate(k.p256)},
		"P-256 as openssl writes it":   {EC, join(parameters, sec1(k.p256)), goodCertificate(k.p256)},
		"P-384 in PKCS#8":              {EC, pkcs8(k.p384), goodCertificate(k.p384)},
		"P-521 in PKCS#8":              {EC, pkcs8(k.p521), publicOf(k.p521)},
		"certificate alone":            {Certificate, "", goodCertificate(k.rsa2048)},
		"EC certificate alone":         {Certificate, "", goodCertificate(k.p256)},
		"certificate of tomorrow":      {Certificate, "", certificateOf(k.p256, keyTime.AddDate(0, 0, 1), keyTime.AddDate(0, 1, 0))},
		"RSA without its private key":  {RSA, "", publicOf(k.rsa2048)},
	} {
		got, wrong := parsePair(tt.kind, tt.private, tt.public)
		if wrong != nil {
			t.Errorf("parsePair(%s) = %v, want none", name, wrong)
			continue
		}
		if (got.private != nil) != (tt.private != "") || got.private != nil && !got.matches(got.signer) {
			t.Errorf("parsePair(%s) has private key %v, want %v", name, got.private != nil, tt.private != "")
		}
		if shown := encodePublic(got.public, got.certificate != nil); !strings.HasPrefix(tt.public, shown[:10]) &&
			name != "RSA with a PKCS#1 public key" {
			t.Errorf("parsePair(%s) shows %q", name, shown)
		}
	}
}

// dsaKey is a DSA key as openssl writes it.
func dsaKey() string {
	var k dsa.PrivateKey
	if err := errorOf(dsa.GenerateParameters(&k.Parameters, rand.Reader, dsa.L1024N160), dsa.GenerateKey(&k, rand.Reader)); err != nil {
		panic(err)
	}
	return armor("DSA PRIVATE KEY", must(asn1.Marshal(struct{ V, P, Q, G, Y, X *big.Int }{new(big.Int), k.P, k.Q, k.G, k.Y, k.X})))
}

func errorOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestParsePairRefuses(t *testing.T) {
	t.Parallel()
	k := testKeys()
	small := must(rsa.GenerateKey(rand.Reader, 1024)) //nolint:gosec // what must be refused
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	one := &rsa.PublicKey{N: k.rsa2048.N, E: 1}
	oneDER := must(asn1.Marshal(struct {
		A pkix.AlgorithmIdentifier
		B asn1.BitString
	}{
		pkix.AlgorithmIdentifier{Algorithm: rsaEncryption, Parameters: asn1.NullRawValue},
		asn1.BitString{Bytes: must(asn1.Marshal(struct {
			N *big.Int
			E int
		}{one.N, one.E})), BitLength: 0},
	}))
	legacy, err := x509.EncryptPEMBlock(rand.Reader, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(k.rsa2048), []byte("secret"), //nolint:staticcheck // what must be refused
		x509.PEMCipherAES256)
	if err != nil {
		t.Fatal(err)
	}
	huge := new(big.Int).Lsh(big.NewInt(1), 60_000)
	huge.SetBit(huge, 0, 1)
	hugeKey := must(asn1.Marshal(struct{ V, N, E, D, P, Q, Dp, Dq, Qi *big.Int }{
		new(big.Int), huge, big.NewInt(65537), huge, big.NewInt(3),
		big.NewInt(3), big.NewInt(3), big.NewInt(3), big.NewInt(3),
	}))
	flipped := x509.MarshalPKCS1PrivateKey(k.rsa2048)
	flipped[len(flipped)-300] ^= 1
	large := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("-----BEGIN CERTIFICATE-----\nQUFB\n"), 10<<20/33))
	good := goodCertificate(k.rsa2048)
	tests := map[string]struct{ kind, private, public, member string }{
		"RSA-1024":                   {RSA, pkcs1(small), goodCertificate(small), "public_key"},
		"RSA-1024 certificate alone": {Certificate, "", goodCertificate(small), "public_key"},
		"RSA of 60000 bits":          {RSA, armor("RSA PRIVATE KEY", hugeKey), good, "private_key"},
		"DSA":                        {RSA, dsaKey(), good, "private_key"},
		"Ed25519": {
			EC, pkcs8(edwards), armor("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(edwards.Public()))),
			"public_key",
		},
		"P-224":                         {EC, sec1(k.p224), publicOf(k.p224), "public_key"},
		"e=1":                           {RSA, "", armor("PUBLIC KEY", oneDER), "public_key"},
		"mismatched RSA pair":           {RSA, pkcs8(k.rsa2048b), good, "private_key"},
		"RSA key for an EC certificate": {EC, pkcs8(k.rsa2048), goodCertificate(k.p256), "private_key"},
		"EC certificate for RSA":        {RSA, pkcs8(k.rsa2048), goodCertificate(k.p256), "public_key"},
		"damaged private key":           {RSA, armor("RSA PRIVATE KEY", flipped), good, "private_key"},
		"encrypted PKCS#8":              {RSA, armor("ENCRYPTED PRIVATE KEY", []byte("x")), good, "private_key"},
		"encrypted PEM":                 {RSA, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(legacy)), good, "private_key"},
		"ends before it begins":         {RSA, "", certificateOf(k.rsa2048, keyTime.AddDate(2, 0, 0), keyTime.AddDate(1, 0, 0)), "public_key"},
		"a second private key":          {RSA, join(pkcs8(k.rsa2048), pkcs8(k.rsa2048b)), good, "private_key"},
		"a second certificate":          {Certificate, "", join(good, good), "public_key"},
		"the key beside its public":     {RSA, join(pkcs8(k.rsa2048), good), good, "private_key"},
		"private key as public key":     {RSA, pkcs8(k.rsa2048), pkcs8(k.rsa2048), "public_key"},
		"text before": {
			RSA,
			base64.StdEncoding.EncodeToString(append([]byte("x\n"), must(base64.StdEncoding.DecodeString(pkcs8(k.rsa2048)))...)), good,
			"private_key",
		},
		"10 MB":                     {RSA, large, good, "private_key"},
		"10 MB public":              {RSA, "", large, "public_key"},
		"PEM that is not in Base64": {RSA, "", string(must(base64.StdEncoding.DecodeString(good))), "public_key"},
		"Base64 of nothing":         {RSA, "", base64.StdEncoding.EncodeToString([]byte("\n")), "public_key"},
		"no public key":             {RSA, pkcs8(k.rsa2048), "", "public_key"},
		"unknown type":              {"rsa", pkcs8(k.rsa2048), good, "key_type"},
		"no type":                   {"", "", good, "key_type"},
		"certificate with a key":    {Certificate, pkcs8(k.rsa2048), good, "private_key"},
		"public key as certificate": {Certificate, "", publicOf(k.rsa2048), "public_key"},
		"garbage in a certificate":  {Certificate, "", armor("CERTIFICATE", []byte("garbage")), "public_key"},
		"garbage in a private key":  {RSA, armor("PRIVATE KEY", []byte("garbage")), good, "private_key"},
	}
	t.Run("attack 254: keys that are weak, broken, protected, mismatched, over or too large", func(t *testing.T) {
		t.Parallel()
		for name, tt := range tests {
			began := time.Now()
			_, wrong := parsePair(tt.kind, tt.private, tt.public)
			if took := time.Since(began); took > time.Minute { // make faults measures 100 ms on a machine that does nothing else
				t.Errorf("parsePair(%s) took %v", name, took)
			}
			if wrong == nil || wrong.Member != tt.member {
				t.Errorf("parsePair(%s) = %v, want %s to be refused", name, wrong, tt.member)
				continue
			}
			if len(wrong.Error()) > 200 ||
				slices.ContainsFunc(strings.Fields(tt.private+" "+tt.public),
					func(s string) bool { return len(s) > 8 && strings.Contains(wrong.Error(), s) }) {
				t.Errorf("parsePair(%s) repeats what it was given: %v", name, wrong)
			}
		}
	})
}

func FuzzParsePair(f *testing.F) {
	k := testKeys()
	f.Add(RSA, must(base64.StdEncoding.DecodeString(pkcs8(k.rsa2048))), must(base64.StdEncoding.DecodeString(goodCertificate(k.rsa2048))))
	f.Add(EC, must(base64.StdEncoding.DecodeString(sec1(k.p256))), must(base64.StdEncoding.DecodeString(publicOf(k.p256))))
	f.Fuzz(func(t *testing.T, kind string, private, public []byte) {
		p, wrong := parsePair(kind, base64.StdEncoding.EncodeToString(private), base64.StdEncoding.EncodeToString(public))
		if (p == nil) == (wrong == nil) {
			t.Fatalf("parsePair = %v, %v", p, wrong)
		}
		if p != nil && p.private != nil && !p.matches(p.signer) {
			t.Error("a pair that does not match")
		}
	})
}

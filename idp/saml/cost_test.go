package saml_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// TestCosts: an attacker with one properly signed answer can add content that is expensive to canonicalize, within the
// limits of the front door. Times are measured only if GATEHOUSE_MUTATIONS is set (make faults), because other tests
// run in parallel otherwise.
func TestCosts(t *testing.T) {
	fill := map[string]string{
		"wide":            strings.Repeat("<a/>", 9_900),
		"attributes":      strings.Repeat(`<a b="" c="" d="" e="" f="" g="" h=""/>`, 2_000),
		"deep":            strings.Repeat(strings.Repeat("<a>", 55)+strings.Repeat("</a>", 55), 30),
		"text":            strings.Repeat("&amp;", 40_000),
		"namespaces":      "<a" + manyPrefixes(26) + ">" + strings.Repeat("<a/>", 3_900) + "</a>",
		"namespaces used": strings.Repeat(`<n:a xmlns:n="urn:x" n:b="" xmlns:m="urn:y" m:c=""/>`, 3_500),
	}
	for name, inner := range fill {
		for _, canonical := range []string{samltest.Exclusive, samltest.Inclusive, samltest.Inclusive11} {
			t.Run("attack 153: "+name+" by "+canonical, func(t *testing.T) {
				l := newLab(t)
				a := l.honest()
				a.SignResponse, a.Signature.Canonical = true, canonical
				a.Tamper = func(root *etree.Element) {
					root.InsertChildAt(3, samltest.Parse([]byte(`<samlp:Extensions xmlns:samlp="`+samltest.Protocol+`">`+inner+
						`</samlp:Extensions>`)).Root())
				}
				raw := l.idp.Response(a)
				l.refuses(t, raw, "not the provider's")
				if os.Getenv("GATEHOUSE_MUTATIONS") == "" {
					return
				}
				least := time.Hour
				for range 5 {
					began := time.Now()
					l.refuses(t, raw, "")
					least = min(least, time.Since(began))
				}
				t.Logf("%s", least)
				if least > 50*time.Millisecond {
					t.Errorf("refusing %d bytes takes %s, want 50ms at most", len(raw), least)
				}
			})
		}
	}
}

func manyPrefixes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ` xmlns:n%d="urn:x"`, i)
	}
	return b.String()
}

// TestCiphertextsTellNothing changes the ciphertext of a signed answer, as an attacker does to learn the plaintext from
// our responses. All responses must be the same, and their times must not tell changes in the padding from changes at
// the start. The times are compared only if GATEHOUSE_MUTATIONS is set.
func TestCiphertextsTellNothing(t *testing.T) {
	n := 100
	if s := os.Getenv("GATEHOUSE_MUTATIONS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("attack 156: ciphertexts by CBC, changed at the start or in the padding", func(t *testing.T) {
		l := newLab(t)
		a := l.honest()
		a.SignResponse, a.Encrypt, a.Content = true, samltest.NewKey("sp", l.now).Certificate, samltest.AES128CBC
		doc := samltest.Parse(l.idp.Response(a))
		value := find(doc.Root(), "./saml:EncryptedAssertion/xenc:EncryptedData/xenc:CipherData/xenc:CipherValue")
		octets, err := base64.StdEncoding.DecodeString(value.Text())
		if err != nil {
			t.Fatal(err)
		}
		dice := rand.New(rand.NewPCG(156, 156)) //nolint:gosec // reproducible
		var times [2][]time.Duration
		for i := range n {
			kind := dice.IntN(2)
			changed := slices.Clone(octets)
			// In the first block, or in the block that decides about the padding.
			changed[kind*(len(octets)-17)+dice.IntN(16)] ^= byte(1 + i%255)
			value.SetText(base64.StdEncoding.EncodeToString(changed))
			raw := samltest.Bytes(doc)
			began := time.Now()
			_, err := l.finish(raw)
			times[kind] = append(times[kind], time.Since(began))
			if err == nil || err.Error() != "idp: the answer: the signature is not the provider's" {
				t.Fatalf("Finish = %v", err)
			}
		}
		got := auc(times[0], times[1])
		t.Logf("%d changes, AUC %.3f", n, got)
		if n >= 1000 && (got > 0.55 || got < 0.45) {
			t.Errorf("AUC = %.3f, want 0.45 to 0.55", got)
		}
	})
}

// auc is the probability that a time of a is shorter than a time of b.
func auc(a, b []time.Duration) float64 {
	sorted := slices.Sorted(slices.Values(b))
	sum := 0.0
	for _, d := range a {
		low, _ := slices.BinarySearch(sorted, d)
		high, _ := slices.BinarySearch(sorted, d+1)
		sum += float64(len(sorted)-high) + float64(high-low)/2
	}
	return sum / float64(len(a)*len(b))
}

package saml_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// TestCosts: whoever has one answer that was signed well can put into it what is expensive to canonicalise, up to what the door lets through. The
// time is measured where GATEHOUSE_MUTATIONS is set (make faults), since other tests run beside this one.
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
					root.InsertChildAt(3, samltest.Parse([]byte(`<samlp:Extensions xmlns:samlp="`+samltest.Protocol+`">`+inner+`</samlp:Extensions>`)).Root())
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

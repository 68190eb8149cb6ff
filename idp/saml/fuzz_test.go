package saml_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// FuzzResponse checks that no callback causes a panic and that only the person in the signed answer is signed in.
func FuzzResponse(f *testing.F) {
	l := newLab(f)
	for _, s := range signings {
		a := l.honest()
		a.SignResponse, a.SignAssertion = s.response, s.assertion
		f.Add(l.idp.Response(a))
	}
	a := l.honest()
	a.SignResponse, a.Encrypt, a.Content = true, samltest.NewKey("sp", l.now).Certificate, samltest.AES128CBC
	f.Add(l.idp.Response(a))
	a.Status = samltest.Responder
	f.Add(l.idp.Response(a))
	f.Add([]byte(`<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>`))
	f.Add([]byte(`<samlp:Response xmlns:samlp="` + samltest.Protocol + `"/>`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		id, err := l.finish(raw)
		switch {
		case err == nil && id.Subject != "anna@example":
			t.Errorf("signed in %q", id.Subject)
		case err != nil && !errors.As(err, new(*idp.Invalid)) && !errors.As(err, new(*idp.Rejection)):
			t.Errorf("Finish = %v (%T)", err, err)
		}
	})
}

// FuzzMetadata checks that reading metadata ends without a panic.
func FuzzMetadata(f *testing.F) {
	l := newLab(f)
	l.idp.SLO, l.idp.Artifact = "https://idp.example/slo", "https://idp.example/ars"
	f.Add(string(l.idp.Metadata()))
	f.Add(string(l.idp.SignedMetadata(l.idp.Key)))
	f.Add(`<EntitiesDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" cacheDuration="P1D"><!-- x --></EntitiesDescriptor>`)
	env := l.env()
	f.Fuzz(func(t *testing.T, raw string) {
		if !strings.HasPrefix(strings.TrimSpace(raw), "<") { // otherwise it is a file name
			return
		}
		if p, err := saml.New(saml.Config{Metadata: raw}, env); err == nil {
			p.Close()
		}
	})
}

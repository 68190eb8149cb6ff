package samltest

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"net/http"
	"strings"

	"github.com/beevik/etree"
)

// Request is an AuthnRequest that the provider has received.
type Request struct {
	ID, SP, ACS, Destination, RelayState, Binding string
	Force, Passive, Signed                        bool
	XML                                           *etree.Document
}

// ReadRequest reads the AuthnRequest from a request by redirect or POST.
func ReadRequest(r *http.Request) (Request, error) {
	raw, err := base64.StdEncoding.DecodeString(r.FormValue("SAMLRequest"))
	if err != nil {
		return Request{}, fmt.Errorf("SAMLRequest: %w", err)
	}
	if r.Method == http.MethodGet {
		if raw, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw)), 1<<20)); err != nil {
			return Request{}, fmt.Errorf("inflate: %w", err)
		}
	}
	doc := etree.NewDocument()
	if err := doc.ReadFromBytes(raw); err != nil || doc.Root() == nil {
		return Request{}, fmt.Errorf("SAMLRequest: %w", err)
	}
	root := doc.Root()
	q := Request{
		ID: root.SelectAttrValue("ID", ""), ACS: root.SelectAttrValue("AssertionConsumerServiceURL", ""), XML: doc,
		Destination: root.SelectAttrValue("Destination", ""), RelayState: r.FormValue("RelayState"),
		Binding: root.SelectAttrValue("ProtocolBinding", ""),
		Force:   root.SelectAttrValue("ForceAuthn", "") == "true", Passive: root.SelectAttrValue("IsPassive", "") == "true",
		Signed: r.FormValue("Signature") != "",
	}
	for _, c := range root.ChildElements() {
		switch c.Tag {
		case "Issuer":
			q.SP = strings.TrimSpace(c.Text())
		case signatureName:
			q.Signed = true
		}
	}
	return q, nil
}

// Honest returns the answer of an honest provider to q for a person. The assertion is signed.
func Honest(q Request, person string) Answer {
	return Answer{SP: q.SP, ACS: q.ACS, Request: q.ID, NameID: person, SignAssertion: true}
}

// Handler serves /metadata and the sign-in. script returns the answer to each request, and the browser gets a form that
// posts it to the service provider. With ok false the script has written its own page.
func (p *Provider) Handler(script func(w http.ResponseWriter, r *http.Request, q Request) (a Answer, ok bool)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/metadata") {
			w.Header().Set("Content-Type", "application/samlmetadata+xml")
			_, _ = w.Write(p.Metadata())
			return
		}
		q, err := ReadRequest(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if a, ok := script(w, r, q); ok {
			WriteForm(w, q.ACS, map[string]string{"SAMLResponse": base64.StdEncoding.EncodeToString(p.Response(a)), "RelayState": q.RelayState})
		}
	})
}

// WriteForm writes a page with a form that posts the fields. A browser submits it automatically.
func WriteForm(w http.ResponseWriter, action string, fields map[string]string) {
	var b strings.Builder
	fmt.Fprintf(&b, `<!doctype html><title>Signing in</title><form method="post" action="%s">`, html.EscapeString(action))
	for name, value := range fields {
		fmt.Fprintf(&b, `<input type="hidden" name="%s" value="%s">`, html.EscapeString(name), html.EscapeString(value))
	}
	b.WriteString(`<button>Continue</button></form><script>document.forms[0].submit()</script>`)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, b.String())
}

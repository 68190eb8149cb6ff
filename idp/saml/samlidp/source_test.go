package samlidp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samlidp"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// TestAnotherEntity: metadata that suddenly name another entity are not taken. Their author could otherwise pass
// for another service provider.
func TestAnotherEntity(t *testing.T) {
	t.Parallel()
	doc := func(entity, acs string) string {
		return `<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="` + entity +
			`"><md:SPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">` +
			`<md:AssertionConsumerService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="` + acs +
			`" index="0"/></md:SPSSODescriptor></md:EntityDescriptor>`
	}
	var published atomic.Value
	published.Store(doc(entity, service))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.Copy(w, strings.NewReader(published.Load().(string))) //nolint:errcheck,forcetypeassert // a string
	}))
	t.Cleanup(server.Close)
	var later atomic.Int64
	source, err := samlidp.NewSource(server.URL, samlidp.Options{}, server.Client(),
		func() time.Time { return now.Add(time.Duration(later.Load())) }, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	read := func(after time.Duration, publish string) *samlidp.Metadata {
		t.Helper()
		published.Store(publish)
		later.Store(int64(after))
		m, err := source.Get(t.Context())
		if err != nil || m.EntityID != entity {
			t.Fatalf("after %s: %+v, %v, want metadata of %s", after, m, err, entity)
		}
		return m
	}
	read(0, doc(entity, service))
	for i := range 5 { // one attempt a minute
		if m := read(2*time.Hour+time.Duration(i)*2*time.Minute,
			doc("https://bank.example.com/saml", "https://bank.example.com/acs")); m.Services[0].Location != service {
			t.Fatalf("metadata of another entity are taken: %+v", m)
		}
	}
	for i := range 20 {
		if read(4*time.Hour+time.Duration(i)*2*time.Minute, doc(entity, service+"/new")).Services[0].Location == service+"/new" {
			return
		}
	}
	t.Error("metadata of the same entity are not read again")
}

// TestReadBeforeItWasUp: a service provider that was down when its metadata was read for the findings serves people as
// soon as it is up, and is named until then.
func TestReadBeforeItWasUp(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, `<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="`+entity+ //nolint:errcheck // the client went away
			`"><md:SPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">`+
			`<md:AssertionConsumerService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="`+service+
			`" index="0"/></md:SPSSODescriptor></md:EntityDescriptor>`)
	}))
	t.Cleanup(server.Close)
	source, err := samlidp.NewSource(server.URL, samlidp.Options{}, server.Client(), func() time.Time { return now }, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	source.Refresh()
	if said := fmt.Sprint(source.Warnings(t.Context())); !strings.Contains(said, "503") {
		t.Errorf("Warnings = %q, want the status 503", said)
	}
	up.Store(true)
	if m, err := source.Get(t.Context()); err != nil || m.EntityID != entity {
		t.Errorf("Get = %+v, %v, want the metadata of %s", m, err, entity)
	}
	if said := source.Warnings(t.Context()); said != nil {
		t.Errorf("Warnings = %q, want none", said)
	}
}

// TestRenew: a message by a key that our copy of the metadata does not have, or for an address that it does not have,
// has the metadata read again: after a minute, or after a quarter of an hour where it is that of a federation. Nothing
// else does.
func TestRenew(t *testing.T) {
	t.Parallel()
	key, next := samltest.NewKey("sp", now), samltest.NewKey("next", now)
	request := func(by *samltest.Key, old, with string) *http.Request {
		x := `<samlp:AuthnRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ` +
			`ID="_one" Version="2.0" IssueInstant="` + now.Format(time.RFC3339) + `" Destination="` + signOn + `" AssertionConsumerServiceURL="` +
			service + `"><saml:Issuer>` + entity + `</saml:Issuer></samlp:AuthnRequest>`
		doc := samltest.Parse([]byte(strings.Replace(x, old, with, 1)))
		if by != nil {
			samltest.Sign(doc.Root(), samltest.Signature{Key: by})
		}
		return message{xml: string(samltest.Bytes(doc))}.request()
	}
	for name, federation := range map[string]bool{"one service provider": false, "attack 6242: a federation": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			around := func(doc string) string {
				if federation {
					return `<md:EntitiesDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata">` + doc + `</md:EntitiesDescriptor>`
				}
				return doc
			}
			var options samlidp.Options
			if federation {
				options.Entity = entity
			}
			var published atomic.Value
			published.Store(around(xmlOf(key)))
			var asked, later atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				io.WriteString(w, published.Load().(string)) //nolint:errcheck,forcetypeassert // a string; the client can have gone
			}))
			t.Cleanup(server.Close)
			source, err := samlidp.NewSource(server.URL, options, server.Client(),
				func() time.Time { return now.Add(time.Duration(later.Load())) }, zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			m, err := source.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			// send delivers a message once the metadata can be read again, and returns how often that happened.
			send := func(r *http.Request) int64 {
				t.Helper()
				later.Add(int64(saml.Eager(federation)))
				before := asked.Load()
				_, err := read(m, r, false)
				if err == nil {
					t.Error("the message is accepted")
				}
				source.Renew(t.Context(), m, err)
				m = source.Known()
				return asked.Load() - before
			}
			for what, r := range map[string]*http.Request{
				"for another destination": request(key, signOn, "https://other.example.com"),
				"of another version":      request(key, "2.0", "3.0"),
				"an hour old":             request(key, now.Format(time.RFC3339), now.Add(-time.Hour).Format(time.RFC3339)),
			} {
				if n := send(r); n != 0 {
					t.Errorf("a message that is signed and %s has the metadata read %d times, want none", what, n)
				}
			}
			for what, r := range map[string]*http.Request{
				"by an unknown key":      request(next, "", ""),
				"for an unknown address": request(key, service, service+"/new"),
				"without a signature":    request(nil, "", ""),
			} {
				if n := send(r); n != 1 {
					t.Errorf("a message %s has the metadata read %d times, want once", what, n)
				}
				before := asked.Load()
				later.Add(int64(saml.Eager(federation)) - 1)
				_, err := read(m, r, false)
				if source.Renew(t.Context(), m, err) != nil || asked.Load() != before {
					t.Errorf("a message %s has the metadata read again too soon", what)
				}
			}
			published.Store(around(xmlOf(next)))
			later.Add(int64(saml.Eager(federation)))
			_, err = read(m, request(next, "", ""), false)
			newer := source.Renew(t.Context(), m, err)
			if newer == nil {
				t.Fatalf("the new key is not found, after %v", err)
			}
			if _, err := read(newer, request(next, "", ""), false); err != nil {
				t.Errorf("a message by the new key: %v", err)
			}
		})
	}
}

// TestUnchangedFederation: a federation is asked for its metadata only if it is newer than our copy, which counts as
// read again.
func TestUnchangedFederation(t *testing.T) {
	t.Parallel()
	first, second := samltest.NewKey("sp", now), samltest.NewKey("next", now)
	var published atomic.Pointer[samltest.Key]
	published.Store(first)
	var asked, sent, later atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		key := published.Load()
		version := `"` + key.Certificate.Subject.CommonName + `"`
		w.Header().Set("ETag", version)
		if r.Header.Get("If-None-Match") == version {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		sent.Add(1)
		io.WriteString(w, `<md:EntitiesDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata">`+xmlOf(key)+ //nolint:errcheck // the client went away
			`</md:EntitiesDescriptor>`)
	}))
	t.Cleanup(server.Close)
	source, err := samlidp.NewSource(server.URL, samlidp.Options{Entity: entity}, server.Client(),
		func() time.Time { return now.Add(time.Duration(later.Load())) }, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if m, err := source.Get(t.Context()); err != nil || !m.Signing[0].Equal(first.Certificate) {
			t.Errorf("Get = %v, %v", m, err)
		}
		later.Add(int64(time.Hour))
	}
	if said := source.Warnings(t.Context()); asked.Load() != 4 || sent.Load() != 1 || said != nil {
		t.Errorf("asked %d times, sent %d times, warnings %q, want 4, 1 and none", asked.Load(), sent.Load(), said)
	}
	published.Store(second)
	if m, err := source.Get(t.Context()); err != nil || !m.Signing[0].Equal(second.Certificate) {
		t.Errorf("changed metadata is not read: %v", err)
	}
}

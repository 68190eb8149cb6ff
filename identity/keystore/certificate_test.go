package keystore_test

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestCertificates(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	year := c.now.AddDate(1, 0, 0)
	rsaPair := pairOf("sign", "RSA", privateOf(m.rsa), certOf(m.rsa, year))
	id := c.add(rsaPair)
	ecID := c.add(pairOf("ec", "EC", privateOf(m.ec), certOf(m.ec, year)))
	c.add(pairOf("partner", "CERTIFICATE", "", certOf(m.other, year)))
	if got := c.list(); !slices.Equal(got, []string{"ec", "partner", "sign"}) {
		t.Errorf("list = %q", got)
	}
	got := c.get(id)
	if got["id"] != id || got["name"] != "sign" || got["key_type"] != "RSA" || got["private_key"] != "" ||
		got["public_key"] != rsaPair["public_key"] {
		t.Errorf("get = %v", got)
	}
	// What was read and is written back changes nothing.
	before := c.events()
	status, body := c.call(http.MethodPost, certificatePath+"/"+id, wrapped(got))
	c.want("write back", status, body, http.StatusOK)
	if after := c.events(); len(after) != len(before) {
		t.Errorf("%d events after writing back, want %d", len(after), len(before))
	}
	key, err := c.service.KeyPairs().Get(t.Context(), "sign")
	if err != nil || key.Key == nil || !m.rsa.Equal(key.Key) || key.Certificate == nil {
		t.Errorf("KeyPair = %+v, %v, want the RSA key", key, err)
	}
	// Another certificate of the same key keeps it; another key must come with its own.
	renewed := pairOf("sign", "RSA", "", certOf(m.rsa, year.AddDate(1, 0, 0)))
	status, body = c.call(http.MethodPost, certificatePath+"/"+id, wrapped(renewed))
	c.want("renew", status, body, http.StatusOK)
	if key, err := c.service.KeyPairs().Get(t.Context(), id); err != nil || !m.rsa.Equal(key.Key) ||
		!key.Certificate.NotAfter.Equal(year.AddDate(1, 0, 0)) {
		t.Errorf("KeyPair by id after renewing = %+v, %v", key, err)
	}
	status, body = c.call(http.MethodPost, certificatePath+"/"+id, wrapped(pairOf("sign", "RSA", "", certOf(m.other, year))))
	c.want("certificate of another key", status, body, http.StatusBadRequest)
	status, body = c.call(http.MethodPost, certificatePath+"/"+id, wrapped(pairOf("sign", "RSA", privateOf(m.other), certOf(m.other, year))))
	c.want("another pair", status, body, http.StatusOK)
	// Removed is gone, and its name is free.
	status, body = c.call(http.MethodDelete, certificatePath+"/"+ecID, nil)
	c.want("delete", status, body, http.StatusOK)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		status, body = c.call(method, certificatePath+"/"+ecID, nil)
		c.want(method+" of what was removed", status, body, http.StatusNotFound)
	}
	if _, err := c.service.KeyPairs().Get(t.Context(), "ec"); err == nil {
		t.Error("KeyPair of what was removed = nil, want an error")
	}
	c.add(pairOf("ec", "EC", "", certOf(m.ec, year)))
	var kinds []string
	for _, e := range c.events() {
		kinds = append(kinds, strings.TrimPrefix(e.Type, "configuration.")+" "+e.Reason+" "+e.Actor)
	}
	want := []string{
		"CertificateAddedEvent sign ops", "CertificateAddedEvent ec ops", "CertificateAddedEvent partner ops", "CertificateUpdatedEvent sign ops",
		"CertificateUpdatedEvent sign ops", "CertificateRemovedEvent ec ops", "CertificateAddedEvent ec ops",
	}
	if !slices.Equal(kinds, want) {
		t.Errorf("events = %q, want %q", kinds, want)
	}
}

func TestCertificateStatuses(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	year := c.now.AddDate(1, 0, 0)
	good := func(name string) fields { return pairOf(name, "EC", privateOf(m.ec), certOf(m.ec, year)) }
	id := c.add(good("one"))
	one := certificatePath + "/" + id
	with := func(member string, v any) fields {
		p := good("two")
		p[member] = v
		return wrapped(p)
	}
	without := good("two")
	delete(without, "private_key")
	for _, tt := range []struct {
		name, method, path string
		body               any
		want               int
		headers            []string
	}{
		{"add a name twice", "POST", certificatePath, wrapped(good("one")), 409, nil},
		{"add with an id", "POST", certificatePath, with("id", id), 400, nil},
		{"unknown member", "POST", certificatePath, with("removable", true), 400, nil},
		{"member missing", "POST", certificatePath, wrapped(without), 400, nil},
		{"no pair", "POST", certificatePath, fields{}, 400, nil},
		{"null", "POST", certificatePath, `{"key_pair":null}`, 400, nil},
		{"wrong type", "POST", certificatePath, with("name", 1), 400, nil},
		{"empty name", "POST", certificatePath, with("name", ""), 400, nil},
		{"name with a line end", "POST", certificatePath, with("name", "a\nb"), 400, nil},
		{"name like an id", "POST", certificatePath, with("name", id), 400, nil},
		{"long name", "POST", certificatePath, with("name", strings.Repeat("n", 101)), 400, nil},
		{"bad PEM", "POST", certificatePath, with("public_key", "eHg="), 400, nil},
		{
			"member twice", "POST", certificatePath, `{"key_pair":{"name":"a","name":"b","key_type":"EC","private_key":"","public_key":""}}`,
			400, nil,
		},
		{"no content type", "POST", certificatePath, wrapped(good("two")), 415, []string{"Content-Type", ""}},
		{"text", "POST", certificatePath, wrapped(good("two")), 415, []string{"Content-Type", "text/plain"}},
		{"no content type at batch", "POST", certificatePath + "/batch", fields{"key_pairs": []fields{}}, 415, []string{"Content-Type", ""}},
		{"no content type at update", "POST", one, wrapped(good("one")), 415, []string{"Content-Type", ""}},
		{"GET without content type", "GET", certificatePath, nil, 200, nil},
		{"GET with content type", "GET", one, nil, 200, []string{"Content-Type", "application/json"}},
		{"update with another id", "POST", one, with("id", "00000000-0000-4000-8000-000000000000"), 400, nil},
		{"update of an unknown id", "POST", certificatePath + "/00000000-0000-4000-8000-000000000000", wrapped(good("two")), 404, nil},
		{"malformed id", "GET", certificatePath + "/x", nil, 404, nil},
		{"name as id", "GET", certificatePath + "/one", nil, 404, nil},
		{"id with a path in it", "GET", certificatePath + "/..%2f..%2fx", nil, 404, nil},
		{"DELETE of an unknown id", "DELETE", certificatePath + "/00000000-0000-4000-8000-000000000000", nil, 404, nil},
		{"PUT", "PUT", one, nil, 405, nil},
		{"GET of batch", "GET", certificatePath + "/batch", nil, 405, nil},
		{"no credentials", "GET", certificatePath, nil, 401, []string{"Authorization", ""}},
		{"no credentials and nothing there", "DELETE", certificatePath + "/x", nil, 401, []string{"Authorization", ""}},
		{"another API's client", "POST", certificatePath, wrapped(good("two")), 403, []string{"Authorization", "Basic eDp5"}},
	} {
		status, body := c.call(tt.method, tt.path, tt.body, tt.headers...)
		c.want(tt.name, status, body, tt.want)
	}
	if got := c.list(); !slices.Equal(got, []string{"one"}) {
		t.Errorf("list = %q, want what was there before", got)
	}
	status, body := c.call("POST", "/api/v2/config/features", fields{"configuration_api_enabled": false})
	c.want("switch off", status, body, 204)
	for _, method := range []string{"GET", "POST"} {
		status, body = c.call(method, certificatePath, wrapped(good("two")))
		c.want(method+" while switched off", status, body, 409)
		status, body = c.call(method, certificatePath, nil, "Authorization", "")
		c.want(method+" while switched off, without credentials", status, body, 401)
	}
}

func TestCertificateBatch(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	year := c.now.AddDate(1, 0, 0)
	pair := func(name string) fields { return pairOf(name, "EC", privateOf(m.ec), certOf(m.ec, year)) }
	batch := func(pairs ...fields) (int, string) {
		return c.call("POST", certificatePath+"/batch", fields{"key_pairs": pairs})
	}
	id := c.add(pair("one"))
	status, body := batch(pair("one"), pair("two"), pair("three"))
	c.want("batch", status, body, 200)
	if got := c.list(); !slices.Equal(got, []string{"one", "three", "two"}) {
		t.Errorf("list = %q", got)
	}
	if !strings.HasPrefix(body, `{"ids":["`+id) {
		t.Errorf("batch = %s, want the id of one first", body)
	}
	renamed := pair("first")
	renamed["id"] = id
	brought := pair("brought")
	brought["id"] = "11111111-1111-4111-8111-111111111111"
	status, body = batch(renamed, brought)
	c.want("by id", status, body, 200)
	if got := c.get(brought["id"].(string)); got["name"] != "brought" { //nolint:forcetypeassert // set above
		t.Errorf("what was brought with its id = %v", got)
	}
	bad := pair("bad")
	bad["public_key"] = "eHg="
	odd := pair("odd")
	odd["id"] = "not-an-id"
	for name, pairs := range map[string][]fields{
		"a bad one":    {pair("four"), bad},
		"a name twice": {pair("four"), pair("four")},
		"a bad id":     {pair("four"), odd},
		"too many":     slices.Repeat([]fields{pair("four")}, 201),
	} {
		status, body := batch(pairs...)
		c.want("batch with "+name, status, body, 400)
	}
	taken := pair("two")
	taken["id"] = id
	status, body = batch(pair("four"), taken)
	c.want("batch with a name that is taken", status, body, 409)
	if got := c.list(); !slices.Equal(got, []string{"brought", "first", "three", "two"}) {
		t.Errorf("list after refused batches = %q, want nothing of them", got)
	}
}

func TestCertificateInUse(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	year := c.now.AddDate(1, 0, 0)
	used := map[string][]string{"sign": {"idp partner"}}
	certificates := map[string][]string{"their-tls": {"idp partner"}}
	signers := func(name string) []string { return used[name] }
	c.service.KeyPairs().OnUse(func(name string) []string { return append(signers(name), certificates[name]...) }, signers)
	status, body := c.call("POST", certificatePath, wrapped(pairOf("sign", "CERTIFICATE", "", certOf(m.ec, year))))
	c.want("add a certificate where a key is needed", status, body, 400)
	theirs := c.add(pairOf("their-tls", "CERTIFICATE", "", certOf(m.ec, year)))
	status, body = c.call("DELETE", certificatePath+"/"+theirs, nil)
	c.want("delete a certificate in use", status, body, 409)
	certificates = nil
	status, body = c.call("DELETE", certificatePath+"/"+theirs, nil)
	c.want("delete a certificate that is no longer used", status, body, 200)
	id := c.add(pairOf("sign", "EC", privateOf(m.ec), certOf(m.ec, year)))
	status, body = c.call("DELETE", certificatePath+"/"+id, nil)
	c.want("delete in use", status, body, 409)
	if !strings.Contains(body, "idp partner") {
		t.Errorf("delete in use = %s, want who uses it", body)
	}
	status, body = c.call("POST", certificatePath+"/"+id, wrapped(pairOf("other", "EC", "", certOf(m.ec, year))))
	c.want("rename in use", status, body, 409)
	status, body = c.call("POST", certificatePath+"/"+id, wrapped(pairOf("sign", "CERTIFICATE", "", certOf(m.ec, year))))
	c.want("drop the private key in use", status, body, 409)
	status, body = c.call("POST", certificatePath+"/"+id, wrapped(pairOf("sign", "EC", "", certOf(m.ec, year.AddDate(1, 0, 0)))))
	c.want("renew in use", status, body, 200)
	// Rollover: the next is there before the old one goes.
	c.add(pairOf("sign-next", "EC", privateOf(m.ec), certOf(m.ec, year)))
	used = map[string][]string{"sign-next": {"idp partner"}}
	status, body = c.call("DELETE", certificatePath+"/"+id, nil)
	c.want("delete after the rollover", status, body, 200)
	if got := c.list(); !slices.Equal(got, []string{"sign-next"}) {
		t.Errorf("list = %q", got)
	}
}

// TestOwnKeyPair: it is made once by any of several services, and stays.
func TestOwnKeyPair(t *testing.T) {
	t.Parallel()
	c := newCertificates(t)
	services := []*settings.Service{c.service, c.another(t.Context(), nil)}
	got := make([]*keystore.Material, 4)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			var err error
			if got[i], err = services[i%2].KeyPairs().Get(t.Context(), ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, k := range got {
		if k == nil || !k.Certificate.Equal(got[0].Certificate) {
			t.Fatal("own pairs differ, want one")
		}
	}
	cert := got[0].Certificate
	public, ok := cert.PublicKey.(*rsa.PublicKey)
	if !ok || public.N.BitLen() != 3072 || cert.NotAfter.Sub(c.now) < 9*365*24*time.Hour ||
		cert.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature) != nil {
		t.Errorf("own certificate = %v to %v, RSA %v", cert.NotBefore, cert.NotAfter, ok)
	}
	if names := c.list(); len(names) != 0 {
		t.Errorf("list = %q, want our own not in it", names)
	}
}

func TestCertificateExpiry(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	c.add(pairOf("later", "CERTIFICATE", "", certOf(m.ec, c.now.AddDate(0, 0, 31))))
	c.add(pairOf("soon", "CERTIFICATE", "", certOf(m.ec, c.now.AddDate(0, 0, 29))))
	der, err := x509.MarshalPKIXPublicKey(m.ec.Public())
	if err != nil {
		t.Fatal(err)
	}
	c.add(pairOf("key alone", "EC", "", armored("PUBLIC KEY", der)))
	list, err := c.service.KeyPairs().Expiries(t.Context())
	if err != nil || len(list) != 2 || list[0].Name != "later" || list[0].Soon || list[1].Name != "soon" || !list[1].Soon ||
		!list[1].NotAfter.Equal(c.now.AddDate(0, 0, 29)) {
		t.Errorf("Expiries = %+v, %v", list, err)
	}
}

// TestExpiredCertificateStays: a stored certificate that expires blocks no change of anything else, and comes along
// with a whole configuration. Another one that has expired does not take its place.
func TestExpiredCertificateStays(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	partner := pairOf("partner", "CERTIFICATE", "", certOf(m.ec, c.now.AddDate(0, 0, 1)))
	id := c.add(partner)
	c.now = c.now.AddDate(0, 1, 0)
	got := c.get(id)
	status, body := c.call(http.MethodPost, certificatePath+"/"+id, wrapped(got))
	c.want("write back", status, body, http.StatusOK)
	status, body = c.call(http.MethodPost, certificatePath+"/batch", fields{"key_pairs": []fields{
		got, pairOf("sign", "RSA", privateOf(m.rsa), certOf(m.rsa, c.now.AddDate(1, 0, 0))),
	}})
	c.want("a batch with another pair", status, body, http.StatusOK)
	export, err := c.service.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := newCertificates(t)
	elsewhere.now = c.now
	for name, s := range map[string]*settings.Service{"itself": c.service, "another server": elsewhere.service} {
		if _, err := s.Import(settings.WithRights(t.Context(), settings.Owner), export, audit.Actor{ID: "ops"}); err != nil {
			t.Errorf("Import(%s) = %v", name, err)
		}
	}
	list, err := elsewhere.service.KeyPairs().Expiries(t.Context())
	if err != nil || len(list) != 2 || list[0].Name != "partner" || !list[0].Over {
		t.Errorf("Expiries after the import = %+v, %v, want the expired one", list, err)
	}
	other := pairOf("partner", "CERTIFICATE", "", certOf(m.other, c.now))
	status, body = c.call(http.MethodPost, certificatePath+"/"+id, wrapped(other))
	c.want("another expired one", status, body, http.StatusBadRequest)
	raw, err := json.Marshal(fields{"key_pairs": []fields{other}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.service.Import(t.Context(), raw, audit.Actor{ID: "ops"})
	if e := new(jsonapi.Error); !errors.As(err, &e) || e.Status != http.StatusBadRequest {
		t.Errorf("Import of another expired one = %v, want 400", err)
	}
	for name, path := range map[string]string{"one": "", "a batch": "/batch"} {
		sent := wrapped(pairOf("late", "CERTIFICATE", "", certOf(m.other, c.now)))
		if path != "" {
			sent = fields{"key_pairs": []any{sent["key_pair"]}}
		}
		status, body = c.call(http.MethodPost, certificatePath+path, sent)
		c.want("add an expired one, "+name, status, body, http.StatusBadRequest)
	}
}

func TestPrivateKeysStayInside(t *testing.T) {
	t.Parallel()
	t.Run("attack 253: a private key in answers, exports, events, logs and storage", func(t *testing.T) {
		t.Parallel()
		c, m := newCertificates(t), material()
		year := c.now.AddDate(1, 0, 0)
		id := c.add(pairOf("sign", "RSA", privateOf(m.rsa), certOf(m.rsa, year)))
		if _, err := c.service.KeyPairs().Get(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		var seen strings.Builder
		for _, call := range []struct {
			method, path string
			body         any
		}{
			{"GET", certificatePath, nil},
			{"GET", certificatePath + "/" + id, nil},
			{"GET", "/api/v2/config", nil},
			{"GET", "/api/config", nil},
			{"POST", certificatePath, wrapped(pairOf("sign", "RSA", privateOf(m.rsa), certOf(m.rsa, year)))},
			{"POST", certificatePath, wrapped(pairOf("bad", "RSA", privateOf(m.rsa), certOf(m.other, year)))},
			{"POST", certificatePath, wrapped(pairOf("bad", "RSA", privateOf(m.rsa), privateOf(m.rsa)))},
			{"POST", certificatePath, wrapped(pairOf(privateOf(m.rsa), "RSA", privateOf(m.rsa), certOf(m.rsa, year)))},
			{"POST", certificatePath, wrapped(pairOf("bad", privateOf(m.rsa), "", certOf(m.rsa, year)))},
			{"POST", certificatePath + "/" + id, wrapped(pairOf("sign", "RSA", privateOf(m.rsa)+"x", certOf(m.rsa, year)))},
			{"POST", certificatePath + "/batch", fields{"key_pairs": []fields{pairOf("bad", "EC", privateOf(m.rsa), certOf(m.rsa, year))}}},
			{"POST", "/api/v2/config", fields{"key_pairs": []fields{pairOf("bad", "EC", privateOf(m.rsa), certOf(m.rsa, year))}}},
			{"POST", certificatePath + "/" + id, wrapped(pairOf("sign", "RSA", privateOf(m.other), certOf(m.other, year)))},
			{"DELETE", certificatePath + "/" + id, nil},
		} {
			status, body := c.call(call.method, call.path, call.body)
			fmt.Fprintln(&seen, status, body)
		}
		c.add(pairOf("sign", "RSA", privateOf(m.rsa), certOf(m.rsa, year)))
		export, err := c.service.Export(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&seen, string(export))
		for _, e := range c.events() {
			fmt.Fprintf(&seen, "%+v\n", e)
		}
		for _, entry := range c.logs.All() {
			fmt.Fprintln(&seen, entry.Message, entry.ContextMap())
		}
		key, err := c.service.KeyPairs().Get(t.Context(), "sign")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&seen, key.Name, keystore.KeyPair{PrivateKey: jsonapi.Secret(privateOf(m.rsa))})
		var stored bytes.Buffer
		if err := c.store.View(t.Context(), func(tx storage.Tx) error {
			for rec, err := range tx.Scan(storage.Range{}) {
				if err != nil {
					return err
				}
				stored.Write(rec.Value)
				stored.WriteByte('\n')
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, k := range []*rsa.PrivateKey{m.rsa, m.other} {
			d := k.D.Bytes()
			der, err := base64.StdEncoding.DecodeString(privateOf(k))
			if err != nil {
				t.Fatal(err)
			}
			pemBody := strings.Split(string(der), "\n")[5]
			for name, needle := range map[string]string{
				"PEM in Base64": privateOf(k)[100:160], "PEM": pemBody, "DER": string(d[20:60]), "DER in hex": hex.EncodeToString(d[20:60]),
				"DER in Base64": base64.StdEncoding.EncodeToString(d[30:60]), "a number": k.D.String()[20:60], "a prime": k.Primes[0].String()[20:60],
			} {
				if strings.Contains(seen.String(), needle) {
					t.Errorf("the private key is shown as %s", name)
				}
				if bytes.Contains(stored.Bytes(), []byte(needle)) {
					t.Errorf("the private key is stored as %s", name)
				}
			}
		}
		if !strings.Contains(seen.String(), "PUBLIC") && !strings.Contains(seen.String(), "public_key") {
			t.Error("nothing was seen: the test looks in the wrong place")
		}
	})
	t.Run("attack 254: a bad pair leaves nothing behind, a huge one is refused at once", func(t *testing.T) {
		t.Parallel()
		c, m := newCertificates(t), material()
		year := c.now.AddDate(1, 0, 0)
		huge := strings.Repeat("QUFB", 10<<20/4)
		for name, pair := range map[string]fields{
			"10 MB private key": pairOf("a", "RSA", huge, certOf(m.rsa, year)),
			"10 MB public key":  pairOf("a", "RSA", "", huge),
			"10 MB name":        pairOf(huge, "RSA", "", certOf(m.rsa, year)),
			"expired":           pairOf("a", "RSA", privateOf(m.rsa), certOf(m.rsa, c.now)),
			"mismatched":        pairOf("a", "RSA", privateOf(m.other), certOf(m.rsa, year)),
		} {
			status, body := c.call("POST", certificatePath, wrapped(pair))
			c.want(name, status, body, 400)
			if len(body) > 1000 {
				t.Errorf("%s: the answer has %d bytes", name, len(body))
			}
		}
		if got := c.list(); len(got) != 0 || len(c.events()) != 0 {
			t.Errorf("list = %q, %d events, want none", got, len(c.events()))
		}
	})
}

// TestExpiriesAreLoggedOnceADay: by the first of two services, and again on the next day, until the certificate is
// renewed.
func TestExpiriesAreLoggedOnceADay(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	c.now = time.Now().Truncate(time.Hour) // the store collects by its own clock
	id := c.add(pairOf("soon", "CERTIFICATE", "", certOf(m.ec, c.now.AddDate(0, 0, 2))))
	c.add(pairOf("later", "CERTIFICATE", "", certOf(m.ec, c.now.AddDate(1, 0, 0))))
	core, logs := observer.New(zap.WarnLevel)
	services := []*settings.Service{c.another(t.Context(), zap.New(core)), c.another(t.Context(), zap.New(core))}
	report := func() {
		t.Helper()
		for _, s := range services {
			if err := s.KeyPairs().ReportExpiries(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for day, want := range []int{1, 2, 3, 4} {
		report()
		report()
		entries := logs.FilterMessageSnippet("a certificate ends soon").All()
		if len(entries) != want {
			t.Fatalf("day %d: %d lines, want %d", day, len(entries), want)
		}
		last := entries[len(entries)-1].ContextMap()
		if last["key_pair"] != "soon" || last["over"] != (day >= 2) {
			t.Errorf("day %d: line %v", day, last)
		}
		c.now = c.now.AddDate(0, 0, 1)
	}
	status, body := c.call("POST", certificatePath+"/"+id, wrapped(pairOf("soon", "CERTIFICATE", "", certOf(m.ec, c.now.AddDate(1, 0, 0)))))
	c.want("renew", status, body, 200)
	report()
	if n := logs.Len(); n != 4 {
		t.Errorf("%d lines after renewing, want 4", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := services[0].Run(ctx); err != nil {
		t.Errorf("Run = %v", err)
	}
}

// TestReseal: what an older encryption key has sealed is sealed by the newer one, and then opened without the older.
func TestReseal(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	c.add(pairOf("sign", "EC", privateOf(m.ec), certOf(m.ec, c.now.AddDate(1, 0, 0))))
	c.add(pairOf("partner", "CERTIFICATE", "", certOf(m.ec, c.now.AddDate(1, 0, 0))))
	own, err := c.service.KeyPairs().Get(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.sealing(t.Context(), nil, 8).KeyPairs().Get(t.Context(), "sign"); err == nil {
		t.Error("another encryption key opens the pair")
	}
	if left, err := c.sealing(t.Context(), nil, 9).Reseal(t.Context()); err != nil || left != 2 {
		t.Errorf("Reseal with a key that opens nothing = %d left, %v, want the pair and our own", left, err)
	}
	if left, err := c.sealing(t.Context(), nil, 8, 7).Reseal(t.Context()); err != nil || left != 0 {
		t.Fatalf("Reseal = %d left, %v", left, err)
	}
	newer := c.sealing(t.Context(), nil, 8)
	if k, err := newer.KeyPairs().Get(t.Context(), "sign"); err != nil || !m.ec.Equal(k.Key) {
		t.Errorf("KeyPair(sign) by the newer key alone = %v", err)
	}
	if k, err := newer.KeyPairs().Get(t.Context(), ""); err != nil || !k.Certificate.Equal(own.Certificate) {
		t.Errorf("own KeyPair by the newer key alone = %v, want the one there was", err)
	}
}

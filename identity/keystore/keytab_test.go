package keystore_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// keytabOf is a keytab in Base64 with this key for HTTP/auth.example.com.
func keytabOf(key string) string {
	counted := func(out []byte, s string) []byte {
		return append(binary.BigEndian.AppendUint16(out, uint16(len(s))), s...) //nolint:gosec // short
	}
	e := counted(counted(counted([]byte{0, 2}, "EXAMPLE.COM"), "HTTP"), "auth.example.com")
	e = counted(append(e, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 18), key)
	return base64.StdEncoding.EncodeToString(append(binary.BigEndian.AppendUint32([]byte{5, 2}, uint32(len(e))), e...)) //nolint:gosec // short
}

const keytabKey = "a key of thirty-two bytes length"

func TestKeytab(t *testing.T) {
	t.Parallel()
	c := newCertificates(t)
	id := c.add(pairOf("tickets", "KEYTAB", keytabOf(keytabKey), ""))
	got := c.get(id)
	if got["key_type"] != "KEYTAB" || got["private_key"] != "" || got["public_key"] != "" {
		t.Errorf("get = %v", got)
	}
	content := func() string {
		t.Helper()
		m, err := c.service.KeyPairs().Get(t.Context(), "tickets")
		if err != nil || m.Key != nil || m.Certificate != nil || m.PublicKey != nil {
			t.Fatalf("Get = %+v, %v, want a keytab alone", m, err)
		}
		return base64.StdEncoding.EncodeToString([]byte(m.Keytab.Reveal()))
	}
	if content() != keytabOf(keytabKey) {
		t.Errorf("Get = %s", content())
	}
	// What was read and is written back changes nothing; nor does the same keytab.
	before := len(c.events())
	for _, pair := range []fields{got, pairOf("tickets", "KEYTAB", keytabOf(keytabKey), "")} {
		status, body := c.call(http.MethodPost, certificatePath+"/"+id, wrapped(pair))
		c.want("write back", status, body, http.StatusOK)
	}
	if after := len(c.events()); after != before {
		t.Errorf("%d events after writing back, want %d", after, before)
	}
	status, body := c.call(http.MethodPost, certificatePath+"/"+id, wrapped(pairOf("tickets", "KEYTAB", keytabOf("another"), "")))
	c.want("another keytab", status, body, http.StatusOK)
	if content() != keytabOf("another") {
		t.Errorf("Get after the change = %s", content())
	}
	// The realm has the keys too, so we make none.
	if err := c.service.KeyPairs().Rotate(t.Context(), id, keystore.Renew, audit.Actor{ID: "ops"}); err == nil {
		t.Error("Renew of a keytab = nil, want an error")
	}
	list, err := c.service.KeyPairs().Summaries(t.Context())
	if err != nil || len(list) != 1 || list[0].Type != keystore.Keytab || !list[0].Private || list[0].PEM != nil {
		t.Errorf("Summaries = %+v, %v", list, err)
	}
	status, body = c.call(http.MethodDelete, certificatePath+"/"+id, nil)
	c.want("delete", status, body, http.StatusOK)
}

// TestKeyPairOfALoginMethod: a key pair by which a login method knows people is guarded as the method is, and the
// owners are told of another one.
func TestKeyPairOfALoginMethod(t *testing.T) {
	t.Parallel()
	for name, administrators := range map[string]bool{"for everybody": false, "for administrators too": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCertificates(t)
			id := c.add(pairOf("tickets", "KEYTAB", keytabOf(keytabKey), ""))
			owner := settings.WithRights(t.Context(), settings.Owner)
			method := fmt.Sprintf(`{"login_methods":{"login_methods":[{"id":"desk","name":"Desk","type":"KERBEROS","enabled":false,"removable":true,`+
				`"administrators_enabled":%t,"kerberos_attributes":{"keytab_id":"tickets"}}]}}`, administrators)
			if _, err := c.service.Import(owner, []byte(method), audit.Actor{ID: "owner"}); err != nil {
				t.Fatal(err)
			}
			given := func(name string) string {
				t.Helper()
				m, err := c.service.KeyPairs().Get(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				return base64.StdEncoding.EncodeToString([]byte(m.Keytab.Reveal()))
			}
			mine := pairOf("tickets", "KEYTAB", keytabOf("the attacker's"), "")
			withID := pairOf("tickets", "KEYTAB", keytabOf("the attacker's"), "")
			withID["id"] = id
			doors := map[string]func() (int, string){
				"one pair": func() (int, string) { return c.call(http.MethodPost, certificatePath+"/"+id, wrapped(mine)) },
				"a batch": func() (int, string) {
					return c.call(http.MethodPost, certificatePath+"/batch", fields{"key_pairs": []fields{mine}})
				},
				"a batch, id": func() (int, string) {
					return c.call(http.MethodPost, certificatePath+"/batch", fields{"key_pairs": []fields{withID}})
				},
				"the whole configuration": func() (int, string) {
					status, body := c.call(http.MethodPost, "/api/v2/config", fields{"key_pairs": []fields{mine}})
					if status == http.StatusNoContent {
						status = http.StatusOK
					}
					return status, body
				},
				"an import": func() (int, string) {
					raw, err := json.Marshal(fields{"key_pairs": []fields{mine}})
					if err != nil {
						t.Fatal(err)
					}
					_, err = c.service.Import(settings.WithRights(t.Context(), settings.SignIn), raw, audit.Actor{ID: "ops"})
					if e := new(jsonapi.Error); errors.As(err, &e) {
						return e.Status, e.Error()
					}
					return http.StatusOK, fmt.Sprint(err)
				},
			}
			if !administrators {
				for door, change := range doors {
					c.told = nil
					mine["private_key"] = keytabOf(door)
					withID["private_key"] = keytabOf(door)
					status, body := change()
					c.want(door, status, body, http.StatusOK)
					if given("tickets") != keytabOf(door) || !slices.Equal(c.told, []string{"key_pairs.tickets"}) {
						t.Errorf("%s: the keytab is %s, and the owners were told of %q", door, given("tickets"), c.told)
					}
				}
				return
			}
			t.Run("attack 9992: an API client for settings gives a method for administrators a key of its own", func(t *testing.T) {
				for door, change := range doors {
					status, body := change()
					c.want(door, status, body, http.StatusForbidden)
					if given("tickets") != keytabOf(keytabKey) {
						t.Errorf("%s: the keytab is another one", door)
					}
				}
			})
			c.told, c.apis = nil, []string{"administrators"}
			status, body := doors["one pair"]()
			c.want("a client for administrators", status, body, http.StatusOK)
			if given("tickets") == keytabOf(keytabKey) || !slices.Equal(c.told, []string{"key_pairs.tickets"}) {
				t.Errorf("the keytab is the former one, or the owners were told of %q", c.told)
			}
			c.told = nil
			other := c.add(pairOf("other", "KEYTAB", keytabOf(keytabKey), ""))
			status, body = c.call(http.MethodPost, certificatePath+"/"+other, wrapped(pairOf("other", "KEYTAB", keytabOf("new"), "")))
			if c.want("a pair that nothing uses", status, body, http.StatusOK); c.told != nil {
				t.Errorf("the owners were told of %q", c.told)
			}
		})
	}
}

func TestKeytabAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 254: what is no keytab, a huge one, one with a public part, one that turns into a key pair", func(t *testing.T) {
		t.Parallel()
		c, m := newCertificates(t), material()
		cert := certOf(m.ec, c.now.AddDate(1, 0, 0))
		id, ec := c.add(pairOf("tickets", "KEYTAB", keytabOf(keytabKey), "")), c.add(pairOf("ec", "EC", privateOf(m.ec), cert))
		cut := keytabOf(keytabKey)[:40]
		for name, pair := range map[string]fields{
			"PEM":           pairOf("x", "KEYTAB", privateOf(m.ec), ""),
			"no Base64":     pairOf("x", "KEYTAB", "\x05\x02", ""),
			"cut":           pairOf("x", "KEYTAB", cut, ""),
			"none":          pairOf("x", "KEYTAB", "", ""),
			"no keys":       pairOf("x", "KEYTAB", base64.StdEncoding.EncodeToString([]byte{5, 2}), ""),
			"a public part": pairOf("x", "KEYTAB", keytabOf(keytabKey), cert),
			"13 KiB":        pairOf("x", "KEYTAB", keytabOf(strings.Repeat("k", 13<<10)), ""),
			"10 MB":         pairOf("x", "KEYTAB", base64.StdEncoding.EncodeToString(make([]byte, 10<<20)), ""),
			"as RSA":        pairOf("x", "RSA", keytabOf(keytabKey), cert),
			"as EC":         pairOf("x", "EC", keytabOf(keytabKey), cert),
			"in lower case": pairOf("x", "keytab", keytabOf(keytabKey), ""),
		} {
			for _, call := range []struct {
				path string
				body fields
			}{
				{certificatePath, wrapped(pair)},
				{certificatePath + "/batch", fields{"key_pairs": []fields{pair}}},
				{"/api/v2/config", fields{"key_pairs": []fields{pair}}},
			} {
				if name == "10 MB" && call.path != certificatePath {
					continue // their bodies have limits of their own
				}
				status, body := c.call(http.MethodPost, call.path, call.body)
				c.want(name+" at "+call.path, status, body, http.StatusBadRequest)
				if strings.Contains(body, cut) {
					t.Errorf("%s: the refusal repeats the keytab: %s", name, body)
				}
			}
		}
		for name, to := range map[string]struct {
			id   string
			pair fields
		}{
			"a keytab becomes a key pair": {id, pairOf("tickets", "EC", privateOf(m.ec), cert)},
			"a key pair becomes a keytab": {ec, pairOf("ec", "KEYTAB", keytabOf(keytabKey), "")},
			"likewise, and keeps its key": {ec, pairOf("ec", "KEYTAB", "", "")},
		} {
			status, body := c.call(http.MethodPost, certificatePath+"/"+to.id, wrapped(to.pair))
			c.want(name, status, body, http.StatusBadRequest)
		}
		if got := c.list(); fmt.Sprint(got) != "[ec tickets]" {
			t.Errorf("list = %q", got)
		}
	})
	t.Run("attack 253: a keytab in answers, exports, events, logs and storage", func(t *testing.T) {
		t.Parallel()
		c := newCertificates(t)
		id := c.add(pairOf("tickets", "KEYTAB", keytabOf(keytabKey), ""))
		var seen strings.Builder
		for _, path := range []string{certificatePath, certificatePath + "/" + id, "/api/v2/config", "/api/config"} {
			_, body := c.call(http.MethodGet, path, nil)
			fmt.Fprintln(&seen, body)
		}
		export, err := c.service.Export(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.service.KeyPairs().Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&seen, "%s\n%+v\n%+v\n", export, m, c.events())
		for _, entry := range c.logs.All() {
			fmt.Fprintln(&seen, entry.Message, entry.ContextMap())
		}
		if err := c.store.View(t.Context(), func(tx storage.Tx) error {
			for rec, err := range tx.Scan(storage.Range{}) {
				if err != nil {
					return err
				}
				seen.Write(rec.Value)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, needle := range []string{keytabKey, base64.StdEncoding.EncodeToString([]byte(keytabKey))[:40], keytabOf(keytabKey)[60:100]} {
			if strings.Contains(seen.String(), needle) || bytes.Contains(export, []byte(needle)) {
				t.Errorf("the keytab is shown as %q", needle)
			}
		}
	})
}

// TestKeytabNamed: members that want a key pair get no keytab, and the other way round.
func TestKeytabNamed(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	c.add(pairOf("tickets", "KEYTAB", keytabOf(keytabKey), ""))
	c.add(pairOf("sign", "EC", privateOf(m.ec), certOf(m.ec, c.now.AddDate(1, 0, 0))))
	method := func(kind, member, attribute, name string) fields {
		return fields{"login_methods": fields{"login_methods": []fields{{
			"id": "one", "name": "One", "type": kind,
			member: fields{attribute: name},
		}}}}
	}
	for _, tt := range []struct {
		name string
		body fields
		want int
	}{
		{"a keytab that signs", method("OPEN_ID_CONNECT", "open_id_connect_attributes", "signing_key_id", "tickets"), 400},
		{"a keytab as a certificate", method("SAML", "saml_mutual_ssl_tls_attributes", "server_certificate_id", "tickets"), 400},
		{"a key pair for tickets", method("KERBEROS", "kerberos_attributes", "keytab_id", "sign"), 400},
		{"an unknown one for tickets", method("KERBEROS", "kerberos_attributes", "keytab_id", "nobody"), 400},
		{"a keytab for tickets", method("KERBEROS", "kerberos_attributes", "keytab_id", "tickets"), 204},
	} {
		status, body := c.call(http.MethodPost, "/api/v2/config", tt.body)
		c.want(tt.name, status, body, tt.want)
	}
	list, err := c.service.KeyPairs().Summaries(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("Summaries = %+v, %v", list, err)
	}
	for _, k := range list {
		if k.Type != keystore.Keytab {
			continue
		}
		status, body := c.call(http.MethodDelete, certificatePath+"/"+k.ID, nil)
		c.want("delete what a method names", status, body, http.StatusConflict)
	}
}

package saml

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp"
)

var fullMapping = idp.Mapping{Attributes: []idp.Attribute{
	{From: "mail", To: "email"},
	{From: "groups", To: "groups"},
	{From: "urn:oid:0.9.2342.19200300.100.1.1", To: "username"},
}}

func TestFinish(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{Mapping: fullMapping, Levels: map[string]int{"urn:class:two": 2}, Level: 1})
	request, _, state := w.begin(idp.Request{MaxAge: -1})
	id, err := w.Finish(t.Context(), state, w.posted(w.answerTo(request.SelectAttrValue("ID", "")), flowID))
	if err != nil {
		t.Fatal(err)
	}
	if id.Issuer != entity || id.Subject != "p-1234" || id.Username != "alice" || id.Email != "alice@example.org" ||
		!id.EmailVerified || id.Level != 2 {
		t.Errorf("Finish = %+v", id)
	}
	if !id.AuthTime.Equal(start) || !id.NotAfter.Equal(start.Add(8*time.Hour)) {
		t.Errorf("signed in at %s until %s", id.AuthTime, id.NotAfter)
	}
	if got := id.Details["groups"]; !slices.Equal(got, []string{"staff", "admins"}) || len(id.Details) != 3 {
		t.Errorf("details = %q", id.Details)
	}
	if !slices.Equal(id.Sessions, sessionNames("p-1234", "s-1")) || len(id.Sessions) != 2 {
		t.Errorf("sessions = %q", id.Sessions)
	}
	if strings.Contains(strings.Join(id.Sessions, " "), "1234") {
		t.Error("the names of sessions show the person")
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	base := verified{
		Issuer: entity, NameID: nameID{Value: "n", Format: formatPersistent}, ClassRef: "urn:c", AuthnInstant: start,
		Attributes: []attribute{
			{Name: "urn:oid:0.9.2342.19200300.100.1.3", Values: []string{" a@example.org ", "b@example.org"}},
			{Name: "mail2", FriendlyName: "other", Values: []string{"c@example.org"}},
			{Name: "uid", Values: []string{"by name"}},
			{Name: "urn:oid:0.9.2342.19200300.100.1.1", Values: []string{"by oid"}},
			{Name: "verified", Values: []string{"false"}},
		},
	}
	mapped := func(pairs ...string) (m idp.Mapping) {
		for i := 0; i < len(pairs); i += 2 {
			m.Attributes = append(m.Attributes, idp.Attribute{From: pairs[i], To: pairs[i+1]})
		}
		return m
	}
	for _, tt := range []struct {
		name string
		cfg  Config
		edit func(*verified)
		want idp.Identity // compared fields: Subject, Username, Email, EmailVerified, Level
		err  bool
	}{
		{"nothing mapped", Config{}, nil, idp.Identity{Subject: "n", Level: 1}, false},
		{
			"the first e-mail",
			Config{Mapping: mapped("mail", "email")},
			nil,
			idp.Identity{Subject: "n", Level: 1, Email: "a@example.org", EmailVerified: true},
			false,
		},
		{
			"by friendly name",
			Config{Mapping: mapped("other", "email")},
			nil,
			idp.Identity{Subject: "n", Level: 1, Email: "c@example.org", EmailVerified: true},
			false,
		},
		{
			"not verified, says an attribute",
			Config{Mapping: mapped("mail", "email", "verified", "email_verified")},
			nil,
			idp.Identity{Subject: "n", Level: 1, Email: "a@example.org"},
			false,
		},
		{
			"a name is never hidden by a short one",
			Config{Mapping: mapped("uid", "username")},
			nil,
			idp.Identity{Subject: "n", Level: 1, Username: "by name"},
			false,
		},
		{
			"e-mail as NameID",
			Config{},
			func(v *verified) { v.NameID = nameID{Value: "N@Example.org", Format: formatEmail} },
			idp.Identity{Subject: "N@Example.org", Level: 1, Email: "N@Example.org", EmailVerified: true},
			false,
		},
		{
			"a transient NameID, with an address",
			Config{Mapping: mapped("mail", "email")},
			func(v *verified) { v.NameID.Format = formatTransient },
			idp.Identity{Subject: "email:a@example.org", Level: 1, Email: "a@example.org", EmailVerified: true},
			false,
		},
		{
			"a transient NameID, with an address that is not verified",
			Config{Mapping: mapped("mail", "email", "verified", "email_verified")},
			func(v *verified) { v.NameID.Format = formatTransient },
			idp.Identity{},
			true,
		},
		{"a transient NameID and nothing else", Config{}, func(v *verified) { v.NameID.Format = formatTransient }, idp.Identity{}, true},
		{
			"a transient NameID, and an attribute names the person",
			Config{Subject: "uid"},
			func(v *verified) { v.NameID.Format = formatTransient },
			idp.Identity{Subject: "by name", Level: 1},
			false,
		},
		{"an attribute names the person", Config{Subject: "uid"}, nil, idp.Identity{Subject: "by name", Level: 1}, false},
		{"attack 171: an attribute with two values names nobody", Config{Subject: "mail"}, nil, idp.Identity{}, true},
		{"attack 171: an attribute that is not there names nobody", Config{Subject: "nothing"}, nil, idp.Identity{}, true},
		{
			"attack 171: case and space of a NameID are kept",
			Config{},
			func(v *verified) { v.NameID.Value = " N " },
			idp.Identity{Subject: " N ", Level: 1},
			false,
		},
		{"attack 171: a NameID with a control character", Config{}, func(v *verified) { v.NameID.Value = "a\nb" }, idp.Identity{}, true},
		{
			"attack 171: a NameID of two thousand characters",
			Config{},
			func(v *verified) { v.NameID.Value = strings.Repeat("x", 2000) },
			idp.Identity{},
			true,
		},
		{"a class of level 3", Config{Levels: map[string]int{"urn:c": 3}, Level: 2}, nil, idp.Identity{Subject: "n", Level: 3}, false},
		{"another class", Config{Levels: map[string]int{"urn:d": 3}, Level: 2}, nil, idp.Identity{Subject: "n", Level: 2}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := base
			if tt.edit != nil {
				tt.edit(&v)
			}
			got, err := newWorld(t, tt.cfg).identity(&v)
			if tt.err {
				if !errors.As(err, new(*idp.Rejection)) {
					t.Errorf("identity = %+v, %v, want a rejection", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Subject != tt.want.Subject || got.Username != tt.want.Username || got.Email != tt.want.Email ||
				got.EmailVerified != tt.want.EmailVerified || got.Level != tt.want.Level {
				t.Errorf("identity = %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestIdentifyBy: the form of a name and the permanent attribute tell whether two names can be the same person.
func TestIdentifyBy(t *testing.T) {
	t.Parallel()
	v := verified{
		Issuer: entity, NameID: nameID{Value: "n", Format: formatPersistent}, AuthnInstant: start,
		Attributes: []attribute{
			{Name: "urn:oid:2.16.840.1.113730.3.1.3", Values: []string{"staff-7"}},
			{Name: "many", Values: []string{"a", "b"}},
			{Name: "blank", Values: []string{" "}},
		},
	}
	for _, tt := range []struct {
		name, form, stable string
		cfg                Config
	}{
		{"nothing said", "format " + formatPersistent, "", Config{}},
		{"by an attribute", "format " + formatPersistent, "staff-7", Config{IdentifyBy: "employeeNumber"}},
		{"by one that is not there", "format " + formatPersistent, "", Config{IdentifyBy: "nothing"}},
		{"by one with two values", "format " + formatPersistent, "", Config{IdentifyBy: "many"}},
		{"by a blank one", "format " + formatPersistent, "", Config{IdentifyBy: "blank"}},
		{"an attribute names the person", "attribute employeeNumber", "", Config{Subject: "employeeNumber"}},
	} {
		if got, err := newWorld(t, tt.cfg).identity(&v); err != nil || got.Form != tt.form || got.Stable != tt.stable {
			t.Errorf("%s: form %q, stable %q, %v, want %q %q", tt.name, got.Form, got.Stable, err, tt.form, tt.stable)
		}
	}
}

func TestFinishRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cfg  Config
		make func(w *world) (state []byte, r *http.Request)
	}{
		{"attack 162: nobody has asked", Config{}, func(w *world) ([]byte, *http.Request) { return nil, w.posted(w.answerTo(""), "") }},
		{"attack 162: an answer to a request, in no flow", Config{AllowUnsolicited: true}, func(w *world) ([]byte, *http.Request) {
			request, _, _ := w.begin(idp.Request{MaxAge: -1})
			return nil, w.posted(w.answerTo(request.SelectAttrValue("ID", "")), "")
		}},
		{"attack 162: an unsolicited answer in a flow", Config{AllowUnsolicited: true}, func(w *world) ([]byte, *http.Request) {
			_, _, state := w.begin(idp.Request{MaxAge: -1})
			return state, w.posted(w.answerTo(""), flowID)
		}},
		{"attack 167: the flow was begun at another provider", Config{}, func(w *world) ([]byte, *http.Request) {
			request, _, _ := w.begin(idp.Request{MaxAge: -1})
			id := request.SelectAttrValue("ID", "")
			return []byte(`{"id":"` + id + `","idp":"https://other.example.com"}`), w.posted(w.answerTo(id), flowID)
		}},
		{"attack 161: an older sign-in where a new one was asked", Config{}, func(w *world) ([]byte, *http.Request) {
			request, _, state := w.begin(idp.Request{Force: true, MaxAge: -1})
			e := w.answerTo(request.SelectAttrValue("ID", ""))
			e.FindElement("./Assertion/AuthnStatement").CreateAttr("AuthnInstant", start.Add(-time.Hour).Format(instant))
			return state, w.posted(e, flowID)
		}},
		{"attack 152: two answers", Config{}, func(w *world) ([]byte, *http.Request) {
			request, _, state := w.begin(idp.Request{MaxAge: -1})
			r := w.posted(w.answerTo(request.SelectAttrValue("ID", "")), flowID)
			if err := r.ParseForm(); err != nil {
				w.t.Fatal(err)
			}
			r.PostForm.Add(paramResponse, r.PostForm.Get(paramResponse))
			return state, r
		}},
		{"the answer in the address", Config{}, func(w *world) ([]byte, *http.Request) {
			request, _, state := w.begin(idp.Request{MaxAge: -1})
			e := w.answerTo(request.SelectAttrValue("ID", ""))
			if err := sign(e, idpKey()); err != nil {
				w.t.Fatal(err)
			}
			return state, httptest.NewRequestWithContext(w.t.Context(), http.MethodGet,
				w.at("acs")+"?"+url.Values{paramResponse: {encoded(w.t, e)}}.Encode(), nil)
		}},
		{"no answer", Config{}, func(w *world) ([]byte, *http.Request) {
			_, _, state := w.begin(idp.Request{MaxAge: -1})
			return state, w.form("acs", url.Values{paramRelay: {flowID}})
		}},
		{"attack 149: not base64", Config{}, func(w *world) ([]byte, *http.Request) {
			_, _, state := w.begin(idp.Request{MaxAge: -1})
			return state, w.form("acs", url.Values{paramResponse: {"%%%"}})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.cfg)
			state, r := tt.make(w)
			if id, err := w.Finish(t.Context(), state, r); !isInvalid(err) {
				t.Errorf("Finish = %+v, %v, want it refused", id, err)
			}
		})
	}
}

func TestFinishOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{AllowUnsolicited: true})
	e := w.answerTo("")
	if err := sign(e, idpKey()); err != nil {
		t.Fatal(err)
	}
	values := url.Values{paramResponse: {encoded(t, e)}}
	if _, err := w.Finish(t.Context(), nil, w.form("acs", values)); err != nil {
		t.Fatalf("an unsolicited answer that is allowed: %v", err)
	}
	t.Run("attack 163: the same answer again", func(t *testing.T) {
		if id, err := w.Finish(t.Context(), nil, w.form("acs", values)); err == nil || !errors.Is(err, idp.ErrReplayed) {
			t.Errorf("Finish = %+v, %v, want %v", id, err, idp.ErrReplayed)
		}
	})
}

func TestFlowOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	for _, tt := range []struct {
		name   string
		relay  []string
		want   string
		refuse bool
	}{
		{"ours", []string{flowID}, flowID, false},
		{"none", nil, "", false},
		{"attack 166: an address", []string{"https://evil.example/"}, "", false},
		{"attack 166: an address without scheme", []string{"//evil.example/aaaaaaaaaaaaaaaaaaaa"}, "", false},
		{"attack 166: a script", []string{"javascript:alert(document.cookie)//"}, "", false},
		{"attack 166: more parameters", []string{flowID + "&SAMLRequest=y"}, "", false},
		{"attack 166: line ends", []string{flowID + "\r\nSet-Cookie: a=b"}, "", false},
		{"attack 166: a hundred kilobytes", []string{strings.Repeat("a", 100<<10)}, "", false},
		{"attack 166: two of them", []string{flowID, flowID}, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := w.FlowOf(w.form("acs", url.Values{paramRelay: tt.relay, paramResponse: {"x"}}))
			if got != tt.want || isInvalid(err) != tt.refuse {
				t.Errorf("FlowOf(%q) = %q, %v, want %q", tt.relay, got, err, tt.want)
			}
		})
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet,
		w.at("acs")+"?"+url.Values{paramRelay: {flowID}, paramArtifact: {"x"}}.Encode(), nil)
	if got, err := w.FlowOf(r); err != nil || got != flowID {
		t.Errorf("FlowOf an artifact = %q, %v", got, err)
	}
	r = w.form("acs?"+paramRelay+"="+flowID, url.Values{})
	if got, err := w.FlowOf(r); err != nil || got != "" {
		t.Errorf("FlowOf = %q, %v: the address of a POST must not be read", got, err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	const pw = "urn:oasis:names:tc:SAML:2.0:ac:classes:Password"
	for _, tt := range []struct {
		name string
		cfg  Config
		want string // part of the error; empty: no error
	}{
		{"a file", Config{Metadata: "./idp.xml"}, ""},
		{"https", Config{Metadata: "https://idp.example.com/md?x=1"}, ""},
		{"http on this machine", Config{Metadata: "http://127.0.0.1:9101/md"}, ""},
		{"everything", Config{
			Metadata: "https://idp.example.com/md", Sign: []string{"new", "old"}, Decrypt: []string{"new", "old"},
			NameID: "persistent", Subject: "uid",
			AuthnContext: &AuthnContext{"better", []string{pw}}, Levels: map[string]int{pw: 2}, Level: 1,
			ProviderName: "Example", Refresh: time.Hour,
		}, ""},
		{"nothing", Config{}, "metadata is missing"},
		{"no files: an address", Config{NoFiles: true, Metadata: "https://idp.example.com/md"}, ""},
		{"no files: XML", Config{NoFiles: true, Metadata: " <md:EntityDescriptor/>", MetadataCertificate: "-----BEGIN CERTIFICATE-----"}, ""},
		{"a file named from elsewhere", Config{NoFiles: true, Metadata: "/dev/stdin"}, "not a file"},
		{
			"a certificate in a file named from elsewhere",
			Config{NoFiles: true, Metadata: "<x/>", MetadataCertificate: "/dev/stdin"},
			"not a file",
		},
		{"http elsewhere", Config{Metadata: "http://idp.example.com/md"}, "use https"},
		{"another scheme", Config{Metadata: "ftp://idp.example.com/md"}, "only https addresses and files"},
		{"a user name", Config{Metadata: "https://u:p@idp.example.com/md"}, "user name"},
		{"a comparison", Config{Metadata: "x", AuthnContext: &AuthnContext{"EXACTLY", []string{pw}}}, "one of exact, minimum, maximum, better"},
		{"no class", Config{Metadata: "x", AuthnContext: &AuthnContext{"exact", nil}}, "needs 1 to 20"},
		{"a class twice", Config{Metadata: "x", AuthnContext: &AuthnContext{"exact", []string{pw, pw}}}, "twice"},
		{"a class that is none", Config{Metadata: "x", Levels: map[string]int{"pass word": 2}}, "is a URI"},
		{"a level", Config{Metadata: "x", Levels: map[string]int{pw: 5}}, "not between 1 and 4"},
		{"the level", Config{Metadata: "x", Level: 9}, "not between 1 and 4"},
		{"a NameID format", Config{Metadata: "x", NameID: "mail"}, "one of persistent"},
		{"a key twice", Config{Metadata: "x", Sign: []string{"a", "a"}}, "twice"},
		{"a short refresh", Config{Metadata: "x", Refresh: time.Second}, "shorter than"},
		{"a subject", Config{Metadata: "x", Subject: " uid"}, "not the name of an attribute"},
		{"a name", Config{Metadata: "x", ProviderName: "a\nb"}, "provider_name"},
		{"a mapping", Config{Metadata: "x", Mapping: idp.Mapping{Attributes: []idp.Attribute{{From: "", To: "b"}}}}, "map"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.cfg.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Validate = %v, want %q", err, tt.want)
			}
		})
	}
}

// TestClassNotReached: a sign-in of another class than the demanded one is a refusal that the application is told of,
// not an answer that cannot be believed.
func TestClassNotReached(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"asked":       {AuthnContext: &AuthnContext{"exact", []string{"urn:class:three"}}},
		"unsolicited": {AllowUnsolicited: true, AuthnContext: &AuthnContext{"exact", []string{"urn:class:three"}}},
	} {
		w := newWorld(t, cfg)
		var state []byte
		answer, flow := w.answerTo(""), ""
		if name == "asked" {
			var request *etree.Element
			request, _, state = w.begin(idp.Request{MaxAge: -1})
			answer, flow = w.answerTo(request.SelectAttrValue("ID", "")), flowID
		}
		if id, err := w.Finish(t.Context(), state, w.posted(answer, flow)); id != nil || !errors.As(err, new(*idp.Rejection)) {
			t.Errorf("%s: Finish = %+v, %v, want a rejection", name, id, err)
		}
	}
}

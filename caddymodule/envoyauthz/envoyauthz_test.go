package envoyauthz_test

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/gatehouse-id/gatehouse/caddymodule/envoyauthz"
	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// fake decides as a test says, and keeps what it was asked.
type fake struct {
	decide func(forwardauth.Question) (forwardauth.Answer, error)

	mu    sync.Mutex // guards asked
	asked []forwardauth.Question
}

func (f *fake) Ask(_ context.Context, q forwardauth.Question) (forwardauth.Answer, error) {
	f.mu.Lock()
	f.asked = append(f.asked, q)
	f.mu.Unlock()
	return f.decide(q)
}

// ClientBehind knows one proxy in front of Envoy.
func (*fake) ClientBehind(peer netip.Addr, forwardedFor []string) netip.Addr {
	if peer != netip.MustParseAddr("10.0.0.1") || len(forwardedFor) != 1 {
		return peer
	}
	return netip.MustParseAddr(forwardedFor[0])
}

func (f *fake) take() []forwardauth.Question {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.asked
	f.asked = nil
	return q
}

// serve starts a server, and returns where it listens.
func serve(t testing.TB, s *envoyauthz.Server, gates envoyauthz.Asker) string {
	t.Helper()
	if err := s.Provision(caddyfileutil.NewVerbatimResolver(), zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	at, err := s.Start(gates)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return at.String()
}

// serveHere starts a server at a free port of this machine, and returns a client of it.
func serveHere(t testing.TB, gates envoyauthz.Asker) authv3.AuthorizationClient {
	t.Helper()
	return dial(t, serve(t, &envoyauthz.Server{Address: "127.0.0.1:0"}, gates), nil)
}

// dial returns a client as Envoy is one.
func dial(t testing.TB, address string, creds credentials.TransportCredentials) authv3.AuthorizationClient {
	t.Helper()
	return authv3.NewAuthorizationClient(connect(t, address, creds))
}

func connect(t testing.TB, address string, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck // of a test
	return conn
}

// request returns Envoy's check of GET https://wiki.test/a?x=1.
func request(change ...func(*authv3.AttributeContext)) *authv3.CheckRequest {
	about := &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: "192.0.2.7"},
		}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "GET", Host: "wiki.test", Scheme: "https", Path: "/a?x=1", Protocol: "HTTP/1.1",
			Headers: map[string]string{
				":method": "GET", ":path": "/a?x=1", ":authority": "wiki.test",
				"authorization": "Bearer t", "accept": "text/html",
			},
		}},
	}
	for _, fn := range change {
		fn(about)
	}
	return &authv3.CheckRequest{Attributes: about}
}

func httpOf(about *authv3.AttributeContext) *authv3.AttributeContext_HttpRequest {
	return about.GetRequest().GetHttp()
}

func lets(forwardauth.Question) (forwardauth.Answer, error) {
	return forwardauth.Answer{
		Passed: true, Status: http.StatusOK, Cookie: "theirs=1",
		Identity: http.Header{"Remote-User": {"ada"}, "Remote-Name": {"Ada Lovelacé"}, "Remote-Email": {""}},
		Remove:   []string{"Remote-Email", "REMOTE_USER", "X-Original-Url", "Remote-User"},
		Limits:   http.Header{"Ratelimit": {`"client h";r=1;t=1800`}},
	}, nil
}

// TestCheckTellsEnvoyWhoItIs: what passes goes up with the identity, and without what the client has made up.
func TestCheckTellsEnvoyWhoItIs(t *testing.T) {
	t.Parallel()
	f := &fake{decide: lets}
	envoy := serveHere(t, f)
	res, err := envoy.Check(t.Context(), request(func(about *authv3.AttributeContext) {
		httpOf(about).Headers["cookie"] = "theirs=1; gh-x-site=secret"
		about.ContextExtensions = map[string]string{"policy": "wiki", "level": "2"}
	}))
	if err != nil {
		t.Fatal(err)
	}
	ok := res.GetOkResponse()
	if res.GetStatus().GetCode() != int32(codes.OK) || ok == nil {
		t.Fatalf("check = %v, want OK", res)
	}
	set := map[string]string{}
	for _, h := range ok.GetHeaders() {
		if h.GetAppendAction() != corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
			t.Errorf("%s is not overwritten but %v", h.GetHeader().GetKey(), h.GetAppendAction())
		}
		set[h.GetHeader().GetKey()] = h.GetHeader().GetValue()
	}
	if diff := cmp.Diff(map[string]string{"remote-user": "ada", "remote-name": "Ada Lovelacé", "cookie": "theirs=1"}, set); diff != "" {
		t.Errorf("headers to set: %s", diff)
	}
	// Envoy sets first and removes then: what is set must not be removed.
	if diff := cmp.Diff([]string{"remote-email", "remote_user", "x-original-url"}, ok.GetHeadersToRemove(),
		cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("headers to remove: %s", diff)
	}
	want := forwardauth.Question{
		Method: "GET", Scheme: "https", Host: "wiki.test", Target: "/a?x=1", Client: netip.MustParseAddr("192.0.2.7"), Gate: "wiki",
		Certified: true, Narrow: map[string][]string{"level": {"2"}},
		Header: http.Header{"Authorization": {"Bearer t"}, "Accept": {"text/html"}, "Cookie": {"theirs=1; gh-x-site=secret"}},
	}
	asked := f.take()
	if len(asked) != 1 || !cmp.Equal(asked[0], want, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmpopts.IgnoreUnexported(want)) {
		t.Errorf("asked %+v, want %+v", asked, want)
	}
	if add := res.GetOkResponse().GetResponseHeadersToAdd(); len(add) != 1 || add[0].GetHeader().GetKey() != "ratelimit" ||
		add[0].GetHeader().GetValue() != `"client h";r=1;t=1800` {
		t.Errorf("headers for the client = %v, want RateLimit", add)
	}
}

func TestCheckTakesSessionCookiesOut(t *testing.T) {
	t.Parallel()
	f := &fake{}
	envoy := serveHere(t, f)
	for _, tt := range []struct {
		name, sent, kept string
		set              string
		removed          bool
	}{
		{"none", "", "", "", false},
		{"others alone", "a=1", "a=1", "", false},
		{"ours alone", "gh-x-site=s", "", "", true},
		{"both", "a=1; gh-x-site=s", "a=1", "a=1", false},
		{"not of UTF-8", "a=\xff; gh-x-site=s", "a=\xff", "a=\xff", false},
	} {
		f.decide = func(forwardauth.Question) (forwardauth.Answer, error) {
			return forwardauth.Answer{Passed: true, Status: http.StatusOK, Cookie: tt.kept}, nil
		}
		res, err := envoy.Check(t.Context(), request(func(about *authv3.AttributeContext) {
			if tt.sent != "" {
				httpOf(about).HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: "cookie", RawValue: []byte(tt.sent)}}}
			}
		}))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		set := ""
		for _, h := range res.GetOkResponse().GetHeaders() {
			set = h.GetHeader().GetValue() + string(h.GetHeader().GetRawValue())
		}
		if removed := slices.Contains(res.GetOkResponse().GetHeadersToRemove(), "cookie"); set != tt.set || removed != tt.removed {
			t.Errorf("%s: Cookie set to %q, removed %v; want %q, %v", tt.name, set, removed, tt.set, tt.removed)
		}
	}
}

// TestCheckReadsOneSource: whatever the headers say about another path, method, host or address changes nothing.
func TestCheckReadsOneSource(t *testing.T) {
	t.Parallel()
	f := &fake{decide: lets}
	envoy := serveHere(t, f)
	_, err := envoy.Check(t.Context(), request(func(about *authv3.AttributeContext) {
		h := httpOf(about).Headers
		for name, value := range map[string]string{
			":path": "/healthz", ":method": "OPTIONS", ":authority": "public.test", ":scheme": "http", "host": "public.test",
			"x-forwarded-for": "10.0.0.1",
			"x-forwarded-uri": "/healthz", "x-forwarded-method": "OPTIONS", "x-original-url": "https://public.test/healthz",
			"x-envoy-original-path": "/healthz",
		} {
			h[name] = value
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	q := f.take()[0]
	if q.Method != "GET" || q.Scheme != "https" || q.Host != "wiki.test" || q.Target != "/a?x=1" ||
		q.Client != netip.MustParseAddr("192.0.2.7") {
		t.Errorf("asked about %s %s://%s%s of %v", q.Method, q.Scheme, q.Host, q.Target, q.Client)
	}
	for name := range q.Header {
		if strings.HasPrefix(name, ":") || name == "Host" {
			t.Errorf("the header %s is in the question", name)
		}
	}
}

// TestCheckReadsHeaderMap: with encode_raw_headers the map of texts is not looked at, and repeated headers stay apart.
func TestCheckReadsHeaderMap(t *testing.T) {
	t.Parallel()
	f := &fake{decide: lets}
	envoy := serveHere(t, f)
	_, err := envoy.Check(t.Context(), request(func(about *authv3.AttributeContext) {
		httpOf(about).HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
			{Key: ":path", RawValue: []byte("/other")},
			{Key: "cookie", RawValue: []byte("a=1")},
			{Key: "cookie", RawValue: []byte("b=2")},
			{Key: "x-text", Value: "v"},
		}}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(http.Header{"Cookie": {"a=1", "b=2"}, "X-Text": {"v"}}, f.take()[0].Header); diff != "" {
		t.Errorf("headers: %s", diff)
	}
}

// TestCheckRefusesWhatNoRequestIs: such a check is 400 without a question.
func TestCheckRefusesWhatNoRequestIs(t *testing.T) {
	t.Parallel()
	t.Run("attack 371,374: checks that are about no request", func(t *testing.T) {
		t.Parallel()
		f := &fake{decide: lets}
		envoy := serveHere(t, f)
		header := func(list ...*corev3.HeaderValue) func(*authv3.AttributeContext) {
			return func(about *authv3.AttributeContext) { httpOf(about).HeaderMap = &corev3.HeaderMap{Headers: list} }
		}
		for name, change := range map[string]func(*authv3.AttributeContext){
			"no request":             func(about *authv3.AttributeContext) { about.Request = nil },
			"a query apart":          func(about *authv3.AttributeContext) { httpOf(about).Query = "y=1" },
			"a fragment":             func(about *authv3.AttributeContext) { httpOf(about).Fragment = "x" },
			"a misspelled extension": func(about *authv3.AttributeContext) { about.ContextExtensions = map[string]string{"polcy": "wiki"} },
			"two spellings":          func(about *authv3.AttributeContext) { httpOf(about).Headers["Authorization"] = "Bearer u" },
			"an invalid name":        header(&corev3.HeaderValue{Key: "a b", Value: "v"}),
			"an empty name":          header(&corev3.HeaderValue{Value: "v"}),
			"a line end":             header(&corev3.HeaderValue{Key: "a", RawValue: []byte("v\r\nremote-user: root")}),
			"two values in one":      header(&corev3.HeaderValue{Key: "authorization", Value: "Bearer a", RawValue: []byte("Bearer b")}),
		} {
			res, err := envoy.Check(t.Context(), request(change))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got := res.GetDeniedResponse().GetStatus().GetCode(); got != http.StatusBadRequest ||
				res.GetStatus().GetCode() != int32(codes.InvalidArgument) || res.GetOkResponse() != nil {
				t.Errorf("%s: %v, want 400", name, res)
			}
		}
		if asked := f.take(); len(asked) > 0 {
			t.Errorf("asked %+v", asked)
		}
		if _, err := envoy.Check(t.Context(), &authv3.CheckRequest{}); err != nil {
			t.Errorf("an empty check: %v", err)
		}
	})
}

// TestCheckDenies: the client gets the answer of protect, with all of its headers.
func TestCheckDenies(t *testing.T) {
	t.Parallel()
	f := &fake{}
	envoy := serveHere(t, f)
	for _, tt := range []struct {
		name   string
		status int
		want   int
		code   codes.Code
	}{
		{"no credentials", 401, 401, codes.Unauthenticated},
		{"no right", 403, 403, codes.PermissionDenied},
		{"too often", 429, 429, codes.ResourceExhausted},
		{"to the sign-in", 302, 302, codes.PermissionDenied},
		{"a page of the site", 200, 403, codes.PermissionDenied},
		{"nothing", 0, 403, codes.PermissionDenied},
		{"a status that Envoy does not know", 499, 403, codes.PermissionDenied},
	} {
		f.decide = func(forwardauth.Question) (forwardauth.Answer, error) {
			return forwardauth.Answer{
				Status: tt.status, Header: http.Header{"Www-Authenticate": {"Bearer", "Basic"}, "Set-Cookie": {"a=1", "b=2"}},
				Body:     []byte(`{"error":"x"}`),
				Identity: http.Header{"Remote-User": {"ada"}}, // not for one who is refused
			}, nil
		}
		res, err := envoy.Check(t.Context(), request())
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		d := res.GetDeniedResponse()
		if int(d.GetStatus().GetCode()) != tt.want || res.GetStatus().GetCode() != int32(tt.code) || d.GetBody() != `{"error":"x"}` ||
			res.GetOkResponse() != nil {
			t.Errorf("%s: %v, want %d", tt.name, res, tt.want)
		}
		got := map[string][]string{}
		for _, h := range d.GetHeaders() {
			key := h.GetHeader().GetKey()
			if again := len(got[key]) > 0; again != (h.GetAppendAction() == corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD) {
				t.Errorf("%s: value %d of %s: %v", tt.name, len(got[key])+1, key, h.GetAppendAction())
			}
			got[key] = append(got[key], h.GetHeader().GetValue())
		}
		if diff := cmp.Diff(map[string][]string{"www-authenticate": {"Bearer", "Basic"}, "set-cookie": {"a=1", "b=2"}}, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// TestCheckInDoubtIsUnavailable: a request about which nothing can be decided is no OK, and no refusal.
func TestCheckInDoubtIsUnavailable(t *testing.T) {
	t.Parallel()
	t.Run("attack 378: nothing can be decided", func(t *testing.T) {
		t.Parallel()
		f := &fake{}
		envoy := serveHere(t, f)
		for name, tt := range map[string]struct {
			decide func(forwardauth.Question) (forwardauth.Answer, error)
			want   codes.Code
		}{
			"the store fails": {
				func(forwardauth.Question) (forwardauth.Answer, error) { return forwardauth.Answer{Status: 503}, nil },
				codes.Unavailable,
			},
			"an error": {func(forwardauth.Question) (forwardauth.Answer, error) {
				return forwardauth.Answer{}, errors.New("secret detail")
			}, codes.Unavailable},
			"an internal error": {
				func(forwardauth.Question) (forwardauth.Answer, error) { return forwardauth.Answer{Status: 500}, nil },
				codes.Unavailable,
			},
			"a panic": {func(forwardauth.Question) (forwardauth.Answer, error) { panic("fake") }, codes.Internal},
		} {
			f.decide = tt.decide
			res, err := envoy.Check(t.Context(), request())
			if got := grpcstatus.Code(err); got != tt.want || res != nil {
				t.Errorf("%s: %v, %v, want %v", name, res, err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: the client reads %v", name, err)
			}
		}
	})
}

// TestCheckBehindAnotherProxy: in front of Envoy stands a load balancer, whose address is not the client's.
func TestCheckBehindAnotherProxy(t *testing.T) {
	t.Parallel()
	f := &fake{decide: lets}
	_, err := serveHere(t, f).Check(t.Context(), request(func(about *authv3.AttributeContext) {
		about.GetSource().GetAddress().GetSocketAddress().Address = "10.0.0.1"
		httpOf(about).Headers["x-forwarded-for"] = "198.51.100.9"
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.take()[0]; got.Client != netip.MustParseAddr("198.51.100.9") || got.Certified {
		t.Errorf("client = %v, certified %v, want the balancer's client, whose certificate Envoy does not know", got.Client, got.Certified)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("GET", "wiki.test", "/a", "authorization", "Bearer t", "policy", "wiki")
	f.Add("", "", "", ":path", "\r\n", "", "")
	f.Add("CONNECT", "[::1]:1", "*", "Remote_User", "root", "level", "9")
	envoy := serveHere(f, &forgetful{fake{decide: lets}})
	f.Fuzz(func(t *testing.T, method, host, path, name, value, extension, policy string) {
		if !utf8.ValidString(method + host + path + name + value + extension + policy) {
			return // gRPC carries no such text
		}
		for _, raw := range []bool{false, true} {
			in := request(func(about *authv3.AttributeContext) {
				r := httpOf(about)
				r.Method, r.Host, r.Path, r.Headers = method, host, path, map[string]string{name: value}
				if raw {
					r.HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
						{Key: name, RawValue: []byte(value)},
						{Key: name, RawValue: []byte(value)},
					}}
				}
				about.ContextExtensions = map[string]string{extension: policy}
			})
			res, err := envoy.Check(t.Context(), in)
			if err != nil || (res.GetOkResponse() == nil) == (res.GetDeniedResponse() == nil) {
				t.Fatalf("check = %v, %v", res, err)
			}
			if res.GetOkResponse() != nil &&
				(strings.ContainsAny(name+value, "\r\n\x00") || extension != "policy" && extension != "scope" && extension != "group" &&
					extension != "level" && extension != "audience") {
				t.Errorf("%q: %q with %q passed", name, value, extension)
			}
		}
	})
}

package forwardauth_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/gatehouse-id/gatehouse/caddymodule/envoyauthz"
	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// envoyOver returns a function that asks gates over gRPC, as Envoy's filter does.
func envoyOver(t testing.TB, g *forwardauth.Gates) func(string, forwardauth.Question) (http.Header, int) {
	t.Helper()
	s := &envoyauthz.Server{Address: "127.0.0.1:0"}
	if err := s.Provision(caddyfileutil.NewVerbatimResolver(), zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	at, err := s.Start(g)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient("passthrough:///"+at.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck // of a test
	envoy := authv3.NewAuthorizationClient(conn)
	return func(gate string, q forwardauth.Question) (http.Header, int) {
		t.Helper()
		return overGRPC(t, envoy, gate, q)
	}
}

// overGRPC asks as Envoy's filter does, and does to the request what it does.
func overGRPC(t testing.TB, envoy authv3.AuthorizationClient, gate string, q forwardauth.Question) (http.Header, int) {
	t.Helper()
	up := http.Header{}
	r := &authv3.AttributeContext_HttpRequest{
		Method: q.Method, Host: q.Host, Scheme: q.Scheme, Path: q.Target,
		Headers: map[string]string{":method": q.Method, ":path": q.Target, ":authority": q.Host, ":scheme": q.Scheme},
	}
	raw := false
	for name, values := range q.Header {
		up[http.CanonicalHeaderKey(name)] = slices.Concat(up[http.CanonicalHeaderKey(name)], values)
		r.Headers[strings.ToLower(name)] = strings.Join(values, ",")
		raw = raw || len(values) > 1
	}
	if raw { // encode_raw_headers
		r.HeaderMap, r.Headers = &corev3.HeaderMap{}, nil
		for name, values := range up {
			for _, v := range values {
				r.HeaderMap.Headers = append(r.HeaderMap.Headers, &corev3.HeaderValue{Key: strings.ToLower(name), RawValue: []byte(v)})
			}
		}
	}
	in := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: q.Client.String()},
		}}},
		Request: &authv3.AttributeContext_Request{Http: r}, ContextExtensions: map[string]string{},
	}}
	if gate != "" {
		in.Attributes.ContextExtensions["policy"] = gate
	}
	for name, values := range q.Narrow {
		in.Attributes.ContextExtensions[name] = values[0]
	}
	out, err := envoy.Check(t.Context(), in)
	if err != nil {
		if grpcstatus.Code(err) != codes.Unavailable {
			t.Fatalf("check: %v", err)
		}
		return nil, http.StatusServiceUnavailable
	}
	ok := out.GetOkResponse()
	if out.GetStatus().GetCode() != int32(codes.OK) || ok == nil {
		return nil, int(out.GetDeniedResponse().GetStatus().GetCode())
	}
	for _, h := range ok.GetHeaders() {
		up[http.CanonicalHeaderKey(h.GetHeader().GetKey())] = []string{h.GetHeader().GetValue() + string(h.GetHeader().GetRawValue())}
	}
	for _, name := range ok.GetHeadersToRemove() {
		delete(up, http.CanonicalHeaderKey(name))
	}
	return up, http.StatusOK
}

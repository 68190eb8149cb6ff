package protect

import (
	"bufio"
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/ratelimits"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
)

// requestState is one request on its way through protect, and the answer that comes back.
type requestState struct {
	http.ResponseWriter
	protect    *Protect
	r          *http.Request
	site       *site
	credential credential
	judged     bool                 // rules have let it pass, so it is judged again while it lasts
	who        *token.Introspection // what the lookup has said. nil: there was none
	ruling     *ruling              // what decides about it
	rules      policy.Selection     // that concern the request
	came       *snapshot            // the request as it came. nil: its rules do not change
	selected   bool                 // whether rules is known
	decision   policy.Decision      // which rule let it pass, or what kept it
	judging    judgement            // what the steps of judge know
	needs      []string             // scopes of the tools that it calls
	reason     refusals.Reason      // why it was kept. Empty: it was not
	kept       string               // id of the form that is to be sent in place of the request. Empty: none
	basic      *notTaken            // why its Basic header counts for nothing. nil: it counts, or was not sent
	byProof    bool                 // its token came by the scheme DPoP
	foreign    bool                 // its bearer token is one of the application, and its session decides
	upgrade    bool                 // the client asked to leave HTTP
	webSocket  bool                 // and may, for this
	metadata   bool                 // it was for the metadata of a resource, which everyone gets
	counted    *ratelimits.Counted  // how often its sender has come. nil: nothing is limited here
	recording  *recording           // nil: it is not recorded
	agent      *string              // the domain of the robot that has signed it, "" for none. nil: that is not known

	asked    bool // whether the next two are known
	entrance Entrance
	err      error

	wrote   bool               // the answer has begun
	retract func() bool        // keeps the request from being taken up as an open one. nil: it is not judged again
	cancel  context.CancelFunc // ends the upstream's side. nil: that ends with the connection
	ended   atomic.Bool        // the credential was found to be no longer valid

	mu    sync.Mutex // guards what follows
	entry *openEntry // nil: it has not lasted long
	conn  net.Conn   // of an upgraded connection
	over  bool       // the handler has returned, so the connection belongs to the next request
}

// open waits for the running instance and holds it, once a request.
func (g *requestState) open() (Entrance, error) {
	if !g.asked {
		g.entrance, g.err = g.protect.enter(g.r.Context())
		g.asked = true
	}
	return g.entrance, g.err
}

func (g *requestState) close() {
	if g.entrance.Leave != nil {
		g.entrance.Leave()
		g.entrance = Entrance{}
	}
}

// forward passes the request on. One that lasts is judged again whenever its credential may have ended.
func (g *requestState) forward(next caddyhttp.Handler) (err error) {
	if g.recording != nil {
		defer func() { g.recording.end(g.protect, err) }()
	}
	if g.judged {
		if g.webSocket || wantsEventStream(g.r) || g.r.ProtoMajor == 3 {
			ctx, cancel := context.WithCancel(g.r.Context())
			defer cancel()
			g.r, g.cancel = g.r.WithContext(ctx), cancel
		}
		g.retract = g.protect.after(g.protect.youth(), g.takeUp)
		defer g.finish()
	}
	if g.upgrade && !g.webSocket {
		g.Header().Set("Connection", "close") // RFC 9931: nothing that follows was meant as a request
	}
	err = next.ServeHTTP(g, g.r)
	dropOurs(g.Header()) // trailers
	switch {
	case err != nil && g.ended.Load():
		return caddyhttp.Error(http.StatusUnauthorized, errNoLonger) // nothing is wrong with the upstream
	case err != nil:
		return g.failed(err)
	}
	return nil
}

// begin is called before any part of the answer is written.
func (g *requestState) begin() {
	dropOurs(g.Header())
	if g.credential.site != nil && !g.wrote {
		keepPrivate(g.Header())
	}
	g.wrote = true
}

// WriteHeader, Write, ReadFrom and FlushError send the headers.
func (g *requestState) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		g.begin()
		g.recording.answered(status)
	} else {
		dropOurs(g.Header())
	}
	g.ResponseWriter.WriteHeader(status)
}

func (g *requestState) Write(b []byte) (int, error) {
	g.begin()
	if g.ended.Load() {
		return 0, errNoLonger
	}
	n, err := g.ResponseWriter.Write(b)
	g.recording.sent(int64(n))
	return n, err
}

// chunk is the part of a file that is sent between two checks whether the request was ended.
const chunk = 256 << 10

// ReadFrom lets files be sent without copying, a part at a time, so a download ends with its credential.
func (g *requestState) ReadFrom(r io.Reader) (sent int64, err error) {
	g.begin()
	rf, ok := g.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{g}, r)
	}
	defer func() { g.recording.sent(sent) }()
	if !g.judged {
		return rf.ReadFrom(r)
	}
	// The operating system copies what is read through one LimitedReader at most.
	whole, ok := r.(*io.LimitedReader)
	if !ok {
		whole = &io.LimitedReader{R: r, N: math.MaxInt64}
	}
	for whole.N > 0 {
		if g.ended.Load() {
			return sent, errNoLonger
		}
		part := &io.LimitedReader{R: whole.R, N: min(chunk, whole.N)}
		wanted := part.N
		n, err := rf.ReadFrom(part)
		sent += n
		whole.N -= n
		if err != nil || n < wanted {
			return sent, err
		}
	}
	return sent, nil
}

// FlushError sends buffered data, for http.ResponseController.
func (g *requestState) FlushError() error {
	g.begin()
	return http.NewResponseController(g.ResponseWriter).Flush()
}

// Flush sends buffered data.
func (g *requestState) Flush() { g.FlushError() } //nolint:errcheck // http.Flusher has no error

// Hijack hands the connection over and remembers it, so it can be closed.
func (g *requestState) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(g.ResponseWriter).Hijack()
	if err == nil {
		conn = &tunnel{Conn: conn}
		g.wrote = true
		g.mu.Lock()
		g.conn = conn
		g.mu.Unlock()
	}
	return conn, rw, err
}

// tunnel is a connection that was handed over. It has one writer at a time: the proxy copies into it while its end is
// announced, and what counts its bytes for Caddy's access log has no lock.
type tunnel struct {
	net.Conn

	mu sync.Mutex // held by the writer
}

func (t *tunnel) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Conn.Write(b)
}

// Unwrap returns the underlying writer for http.ResponseController.
func (g *requestState) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// isWebSocket reports whether a request is a valid opening handshake. (RFC 6455 4.2.1, RFC 8441 5, RFC 9220)
func isWebSocket(r *http.Request) bool {
	if r.Method == http.MethodConnect {
		return (r.ProtoMajor == 2 && r.Header.Get(":protocol") == "websocket") || (r.ProtoMajor == 3 && r.Proto == "websocket")
	}
	upgrade := r.Header["Upgrade"]
	return r.ProtoMajor == 1 && r.ProtoMinor == 1 && r.Method == http.MethodGet &&
		len(upgrade) == 1 && strings.EqualFold(upgrade[0], "websocket") &&
		httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade") &&
		len(r.Header["Sec-Websocket-Key"]) == 1 &&
		len(r.Header["Sec-Websocket-Version"]) == 1 && r.Header["Sec-Websocket-Version"][0] == "13"
}

const eventStream = "text/event-stream"

// wantsEventStream reports whether the client accepts an answer that goes on until the client ends it, among others.
func wantsEventStream(r *http.Request) bool {
	return slices.ContainsFunc(r.Header["Accept"], func(v string) bool { return strings.Contains(v, eventStream) })
}

// policyViolation is a WebSocket close frame with code 1008. (RFC 6455 5.5.1, 7.4.1)
var policyViolation = []byte{0x88, 2, 1008 >> 8, 1008 & 0xff}

// closing is the maximum delay of the end of a connection by a peer that does not read.
const closing = 100 * time.Millisecond

// hangUp ends the connection of a WebSocket, or the answer that is being written.
func (g *requestState) hangUp() {
	g.ended.Store(true)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conn == nil {
		if !g.over {
			// A read that ends ends the request, which the upstream's side waits for. (HTTP/2: the write.) The handler
			// can be writing at this moment, and only the writer of net/http takes a deadline then.
			c, past := http.NewResponseController(innermost(g.ResponseWriter)), time.Unix(1, 0)
			c.SetWriteDeadline(past) //nolint:errcheck // the next write fails in any case
			c.SetReadDeadline(past)  //nolint:errcheck // the same
		}
		return
	}
	if err := g.conn.SetWriteDeadline(g.protect.now().Add(closing)); err == nil {
		g.conn.Write(policyViolation) //nolint:errcheck // it is closed in any case
	}
	g.conn.Close() //nolint:errcheck // nothing can be done about it
}

// innermost returns the writer that the others wrap.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = wrapper.Unwrap()
	}
}

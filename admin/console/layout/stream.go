package layout

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// A screen can tell a script of its page what is new, by server-sent events (HTML Standard 9.2), as long as the page is
// open. Such an answer lasts, and a right does not: before each step the session, its level, the role and the switch of
// the console are read again, as for a page that is opened now. The stream does not count as a use of the session,
// which ends as if no one were there, and the stream with it.

const (
	eventStream = "text/event-stream"
	// streamEvery is the interval at which a stream looks for news and checks whether it may go on.
	streamEvery = time.Second
	// heartbeat is after which silence it says that it is still there, so nothing in between closes it.
	heartbeat = 15 * time.Second
	// streamLasts is after which time the browser has to ask again, as for a page.
	streamLasts = 10 * time.Minute
	// sendTime is the time limit for a browser to read a message.
	sendTime = 10 * time.Second
	// MostStreams is the maximum number of streams of a session.
	MostStreams = 4
)

// Feed returns what is new since its last call.
type Feed func(v *Visit) (Message, error)

// Message is a message of a stream. A later stream begins after ID. Without a Name nothing is new.
type Message struct{ ID, Name, Data string }

// streams are the open streams of all sessions.
type streams struct {
	mu    sync.Mutex     // guards open
	open  map[string]int // by the ids of sessions
	over  sync.Once
	ended chan struct{} // closed by over
}

// enter takes one of the streams of a session.
func (s *streams) enter(session string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[session] >= MostStreams {
		return false
	}
	s.open[session]++
	return true
}

// leave gives it back.
func (s *streams) leave(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[session]--; s.open[session] == 0 {
		delete(s.open, session)
	}
}

// isOver reports whether all streams are to end.
func (s *streams) isOver() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// EndStreams ends all streams, now and for good. Browsers ask again, and the next configuration answers them.
func (f *Frame) EndStreams() {
	f.streams.over.Do(func() { close(f.streams.ended) })
}

// wantsStream reports whether a script asks, and not a person who has opened the address.
func wantsStream(q *webflow.Request) bool {
	return strings.Contains(q.Header.Get("Accept"), eventStream)
}

// stream serves the stream of a screen. Who may not read it is not sent to sign in: no one would see that page.
func (f *Frame) stream(q *webflow.Request, s *Screen) error {
	if site := q.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return Denied("a stream is asked for by another site")
	}
	if q.SignIn == nil || q.SignIn.Session.Level < f.Level {
		return Denied("a stream needs a sign-in")
	}
	v, err := f.admit(q, s, s.Role, false)
	if err != nil {
		return err
	}
	feed, err := s.Feed(v)
	if err != nil {
		return err
	}
	if !f.streams.enter(v.SignIn.ID) {
		return &webflow.Answer{
			Status: http.StatusTooManyRequests, Key: "error.wait",
			Cause: errors.New("console: the session has too many streams"),
		}
	}
	defer f.streams.leave(v.SignIn.ID)
	h := v.W.Header()
	h.Set("Content-Type", eventStream)
	h.Set("Cache-Control", "no-store, no-transform") // compression would hold it back
	h.Set("X-Accel-Buffering", "no")                 // so would nginx
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	v.W.WriteHeader(http.StatusOK)
	if v.Method == http.MethodGet {
		f.feed(v, feed)
	}
	return webflow.ErrAnswered
}

// feed sends what is new until the browser leaves, the right is lost, or it has lasted long enough.
func (f *Frame) feed(v *Visit, feed Feed) {
	out := &sender{to: v.W, rc: http.NewResponseController(v.W)}
	defer func() { _ = out.rc.SetWriteDeadline(time.Time{}) }() // the connection goes on
	out.send("retry: 1000\n\n")
	begun, spoke := v.Now, v.Now
	for out.err == nil && !f.streams.isOver() {
		now, err := v.again()
		if err != nil || now.Now.Sub(begun) >= streamLasts {
			return
		}
		m, err := feed(now)
		switch {
		case err != nil:
			return
		case m.Name != "":
			out.send(fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", m.ID, m.Name, dataLines.Replace(m.Data)))
			spoke = now.Now
		case now.Now.Sub(spoke) >= heartbeat:
			out.send(": \n\n")
			spoke = now.Now
		}
		select {
		case <-v.Context().Done():
			return
		case <-f.streams.ended:
			return
		case <-f.After(streamEvery):
		}
	}
}

// again returns the visit as it would be now, or says why it would be refused.
func (v *Visit) again() (*Visit, error) {
	f := v.frame
	q, err := f.Identity.Front.Reload(v.Request)
	switch {
	case err != nil:
		return nil, err
	case !q.Settings.Features.AdminConsoleEnabled:
		return nil, Denied("the console is switched off")
	case q.SignIn == nil || q.SignIn.ID != v.SignIn.ID || q.SignIn.Session.Level < f.Level:
		return nil, Denied("the session has ended")
	}
	now := *v
	now.Request, now.Now, now.Role = q, f.Now(), f.RoleOf(q.SignIn.Person.PartitionName(), q.SignIn.Person.Groups)
	if now.Role < v.Screen.Role {
		return nil, Denied("the rights have been taken away")
	}
	return &now, nil
}

// dataLines continues each line of a message. A carriage return alone ends a line, too. (HTML Standard 9.2.5)
var dataLines = strings.NewReplacer("\r\n", "\ndata: ", "\r", "\ndata: ", "\n", "\ndata: ")

// sender writes to a browser that reads.
type sender struct {
	to  io.Writer
	rc  *http.ResponseController
	err error
}

func (s *sender) send(text string) {
	_ = s.rc.SetWriteDeadline(time.Now().Add(sendTime)) // a writer without one has that of the server
	if _, s.err = io.WriteString(s.to, text); s.err == nil {
		s.err = s.rc.Flush()
	}
}

package calllog

import (
	"fmt"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// The events of the package.
var (
	eventPassed = audit.Type{Type: "call.CallPassedEvent", Name: "Call Passed"}
	eventSealed = audit.Type{Type: "call.CallsSealedEvent", Name: "Calls Sealed"}
	eventLost   = audit.Type{Type: "call.CallsLostEvent", Name: "Calls Lost"}
)

// sealText is the reason of eventSealed, which Verify reads again.
const sealText = "calls up to %d of node %d, block %d, SHA-256 %x"

// seal is the statement of an event about the log of a node.
type seal struct {
	last, block uint64
	lane        int
	hash        []byte
	at          time.Time
}

func sealOf(e *audit.Event) (s seal, ok bool) {
	if e.Type != eventSealed.Type {
		return s, false
	}
	s.at = e.Occurred
	n, err := fmt.Sscanf(e.Reason, sealText, &s.last, &s.lane, &s.block, &s.hash)
	s.lane--
	return s, err == nil && n == 4 && s.lane >= 0
}

// event returns a call as an event of its own. It occurs when the call has ended, since searches of events and their
// retention count on an order of writing that is that of the times.
func (c *Call) event(rec *audit.Recorder) (audit.Event, error) {
	e, err := rec.New(eventPassed, audit.Origin{ClientIP: c.IP, UserAgent: c.UserAgent})
	if err != nil {
		return e, err
	}
	e.ClientID, e.PersonID, e.SessionID, e.Partition = c.ClientID, c.PersonID, c.SessionID, c.Partition
	e.Actor, e.AgentUser = c.PersonID, c.Username
	if c.PersonID == "" {
		e.Actor, e.AgentUser = c.ClientID, c.ClientID
	}
	e.Reason = fmt.Sprintf("%s %s%s: %s", c.Method, c.Site, c.Path, c.Outcome())
	if c.Took >= time.Second {
		e.Reason += ", took " + c.Took.Round(time.Second).String()
	}
	return e, nil
}

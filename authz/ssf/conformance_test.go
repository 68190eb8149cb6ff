package ssf_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
)

const (
	ssfPlan   = "openid-ssf-transmitter-test-plan/"
	ssfErrors = ssfPlan + "openid-ssf-stream-control-error-"
)

// TestConformanceSSF runs the modules of the plans SSF Transmitter and CAEP Interop.
func TestConformanceSSF(t *testing.T) {
	t.Parallel()
	for module, run := range map[string]func(*testing.T){
		ssfPlan + "openid-ssf-transmitter-metadata": signalMetadata, ssfPlan + "openid-ssf-stream-control-happy-path": signalStream,
		ssfPlan + "openid-ssf-stream-subject-control": signalSubjects,
		ssfPlan + "openid-ssf-transmitter-stream-verification-push": func(t *testing.T) {
			signalVerifiedByPush(t,
				"Bearer of-the-receiver")
		},
		ssfPlan + "openid-ssf-transmitter-stream-verification-error-push-no-auth":          func(t *testing.T) { signalVerifiedByPush(t, "") },
		ssfPlan + "openid-ssf-transmitter-stream-verification-poll-only":                   func(t *testing.T) { signalVerified(t, pollOnly) },
		ssfPlan + "openid-ssf-transmitter-stream-verification-ack-only":                    func(t *testing.T) { signalVerified(t, ackOnly) },
		ssfPlan + "openid-ssf-transmitter-stream-verification-poll-and-ack":                func(t *testing.T) { signalVerified(t, pollAndAck) },
		"openid-ssf-transmitter-caep-test-plan/openid-ssf-transmitter-stream-caep-interop": signalPoll,
		"of ours/ssf-push-is-never-lost":                                                   signalPush,
	} {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			run(t)
		})
	}
	t.Run("errors", signalErrors)
}

// How a receiver polls. (RFC 8936 2.4)
const (
	pollOnly = iota
	ackOnly
	pollAndAck
)

// verification returns the id of the one event that verifies a stream by this state.
func verification(r *authztest.Receiver, sets map[string]authztest.Object, stream, state string) string {
	r.T.Helper()
	for id, s := range sets {
		about, _ := s["sub_id"].(authztest.Object)
		said, _ := s["events"].(authztest.Object)[verifiedURI].(authztest.Object)
		if len(sets) != 1 || about["format"] != "opaque" || about["id"] != stream || said["state"] != state {
			r.T.Errorf("%d events, of which one is %v, want one verification by %q", len(sets), s, state)
		}
		return id
	}
	r.T.Fatal("no event")
	return ""
}

func signalVerified(t *testing.T, how int) {
	t.Helper()
	r := newReceiver(t, false)
	id := create(r, authztest.PollMethod)
	r.Want(http.StatusNoContent, "POST", "/ssf/verify", authztest.Object{"stream_id": id, "state": "first"})
	first := verification(r, poll(r), id, "first")
	switch how {
	case pollOnly: // what is not acknowledged comes again
		if again := verification(r, poll(r), id, "first"); again != first {
			t.Errorf("jti %s, then %s", first, again)
		}
	case ackOnly:
		res := r.Want(http.StatusOK, "POST", "/ssf/poll", authztest.Object{"returnImmediately": true, "maxEvents": 0, "ack": []string{first}})
		if sets, _ := res.JSON()["sets"].(authztest.Object); sets == nil || len(sets) != 0 {
			t.Errorf("acknowledged alone: %s", res.Body)
		}
		if left := poll(r); len(left) != 0 {
			t.Errorf("after the acknowledgement: %v", left)
		}
	case pollAndAck:
		r.Clock.Advance(time.Minute) // a stream is verified so often at most
		r.Want(http.StatusNoContent, "POST", "/ssf/verify", authztest.Object{"stream_id": id, "state": "second"})
		if second := verification(r, poll(r, first), id, "second"); second == first {
			t.Errorf("both have the jti %s", first)
		}
	}
}

// signalVerifiedByPush: the event comes with the header that the receiver has named, and with none if it has not.
func signalVerifiedByPush(t *testing.T, header string) {
	t.Helper()
	r := newReceiver(t, false)
	delivery := authztest.Object{"method": authztest.PushMethod, "endpoint_url": "https://siem.example.com/events"}
	if header != "" {
		delivery["authorization_header"] = header
	}
	id := r.Want(http.StatusCreated, "POST", "/ssf/stream", authztest.Object{"delivery": delivery}).Text("stream_id")
	r.Want(http.StatusNoContent, "POST", "/ssf/verify", authztest.Object{"stream_id": id, "state": "pushed"})
	requests, bodies := pushed(r)
	if len(requests) != 1 || !slices.Equal(requests[0].Header.Values("Authorization"),
		slices.DeleteFunc([]string{header}, func(s string) bool { return s == "" })) {
		t.Fatalf("pushed %v, want one request with the header %q", requests, header)
	}
	verification(r, map[string]authztest.Object{"it": read(r, bodies[0])}, id, "pushed")
}

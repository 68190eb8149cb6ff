package doctor

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
)

// harmless are the methods by which nothing changes, also if a request gets past.
var harmless = []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace}

// live are the probes that an application may get which is at work: they need no token and change nothing.
func live(list []probe) []probe {
	return slices.DeleteFunc(list, func(p probe) bool { return p.token || p.expects != refuses || !slices.Contains(harmless, p.method) })
}

// refusals are the responses of Gatehouse, and of the proxies in front of it, to a request that may not pass.
var refusals = []int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusMisdirectedRequest,
	http.StatusTooManyRequests,
	http.StatusRequestHeaderFieldsTooLarge, http.StatusNotImplemented, http.StatusServiceUnavailable, http.StatusHTTPVersionNotSupported,
}

// judgeLive tells by the answer alone whether a request may have arrived at the application.
func (e *examination) judgeLive(p probe, a reply) (verdict, what string) {
	switch {
	case a.status == 0:
		return OK, "refused without an answer"
	case a.status < http.StatusMultipleChoices || a.status == http.StatusNotModified:
		if p.first {
			return Failed, fmt.Sprintf("the page answered %d to someone who is not signed in: it asks for no credential", a.status)
		}
		return Failed, fmt.Sprintf("the answer is %d: the request got past, to the application or to a page that is open", a.status)
	case p.first && a.status >= http.StatusInternalServerError:
		return Warning, fmt.Sprintf("refused with %d, which is no answer that a person can use", a.status)
	case a.status == e.usual.status && sameTarget(a.location, e.usual.location), slices.Contains(refusals, a.status):
		return OK, "refused with " + fmt.Sprint(a.status)
	case a.status == http.StatusMovedPermanently || a.status == http.StatusPermanentRedirect:
		return OK, fmt.Sprintf("answered with %d, to the address in another spelling", a.status)
	case a.status < http.StatusBadRequest:
		return Warning, fmt.Sprintf("the answer is %d and leads elsewhere than the sign-in: it can be the application's", a.status)
	}
	return Warning, fmt.Sprintf("the answer is %d, which Gatehouse does not give here: it can be the application's", a.status)
}

// sameTarget reports whether two addresses lead to the same page, whatever their queries are.
func sameTarget(one, other string) bool {
	a, errA := url.Parse(one)
	b, errB := url.Parse(other)
	return errA == nil && errB == nil && a.Scheme == b.Scheme && a.Host == b.Host && a.Path == b.Path
}

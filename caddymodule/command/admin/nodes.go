package admin

import "net/http"

// adminListNodes lists the processes that use the storage.
func adminListNodes(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	return i.Node.List(r.Context())
}

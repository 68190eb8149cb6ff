package jsonapi

import (
	"net/http"
	"slices"
)

// PartitionHeader names the partition that a request is about. (identity service document, "Credentials API")
const PartitionHeader = "X-Service-Persons-Partition-Id"

// PartitionOf returns the partition that a request is about, while persons are kept in partitions: that of the header,
// or without a header the only one that the API client is limited to. A client that is not limited can leave the header
// out unless it is required; "" then says any partition. A limited client never gets "". Errors: *Error, 400 or 403.
func PartitionOf(r *http.Request, only []string, required bool) (string, error) {
	switch values := r.Header.Values(PartitionHeader); {
	case len(values) == 0 && len(only) == 1:
		return only[0], nil
	case len(values) == 0 && len(only) == 0 && !required:
		return "", nil
	case len(values) != 1 || values[0] == "":
		return "", &Error{Status: http.StatusBadRequest, Message: "the header " + PartitionHeader + " must name one partition"}
	case len(only) > 0 && !slices.Contains(only, values[0]):
		return "", &Error{Status: http.StatusForbidden, Message: "the API client may not use this partition"}
	default:
		return values[0], nil
	}
}

// Partition is PartitionOf for an API client. While persons are not kept in partitions it is "", and the header means
// nothing.
func (g *Gate) Partition(r *http.Request, client string, required bool) (string, error) {
	if !g.Partitioned {
		return "", nil
	}
	var only []string
	if g.Partitions != nil {
		only = g.Partitions(client)
	}
	return PartitionOf(r, only, required)
}

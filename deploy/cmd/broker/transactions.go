package main

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// refuseTransactions answers like a broker whose ACLs give nobody a transactional id. Without
// a producer id of a transaction no transactional batch is taken.
func refuseTransactions(cluster *kfake.Cluster) {
	cluster.ControlKey(kmsg.InitProducerID.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()

		asked := request.(*kmsg.InitProducerIDRequest)
		if asked.TransactionalID == nil {
			return nil, nil, false
		}
		response := asked.ResponseKind().(*kmsg.InitProducerIDResponse)
		response.ErrorCode, response.ProducerID,
			response.ProducerEpoch = kerr.TransactionalIDAuthorizationFailed.Code, -1, -1

		return response, nil, true
	})
}

package ledger

import (
	"fmt"
	"net"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/settings"
)

// Config says where the ledger is. It is embedded in the configuration of services.
type Config struct {
	Addresses []string `env:"TIGERBEETLE_ADDRESSES" envDefault:"127.0.0.1:3001" help:"replicas of the TigerBeetle cluster, ip:port, comma-separated; host names are not allowed"`
	ClusterID uint64   `env:"TIGERBEETLE_CLUSTER_ID" envDefault:"0" help:"id of the TigerBeetle cluster; with a wrong id every request waits forever"`
}

// Validate names the variable and the value that is wrong.
func (c Config) Validate() error {
	if err := settings.NotEmpty("TIGERBEETLE_ADDRESSES", c.Addresses); err != nil {
		return err
	}

	for _, address := range c.Addresses {
		host, _, err := net.SplitHostPort(address)
		if err != nil || net.ParseIP(host) == nil {
			return fmt.Errorf("TIGERBEETLE_ADDRESSES holds %q: it must be ip:port, host names are not allowed", address)
		}
	}

	return nil
}

// Connect makes a client; a process needs one. It does not wait for the server, but every
// request does, without a time limit.
func Connect(config Config) (tigerbeetle.Client, error) {
	client, err := tigerbeetle.NewClient(tb.ToUint128(config.ClusterID), config.Addresses)
	if err != nil {
		return nil, fmt.Errorf("cannot make a TigerBeetle client for TIGERBEETLE_ADDRESSES %v: %w",
			config.Addresses, err)
	}

	return client, nil
}

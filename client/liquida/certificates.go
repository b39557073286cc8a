package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/client"
)

// certificateFlags adds the flags for an API over TLS to every command.
func certificateFlags(root *cobra.Command) *client.Certificates {
	files, flags := &client.Certificates{}, root.PersistentFlags()
	flags.StringVar(&files.Cert, "cert", os.Getenv("LIQUIDA_CERT"), "file with the participant's certificate, PEM, for mutual TLS, or LIQUIDA_CERT")
	flags.StringVar(&files.Key, "key", os.Getenv("LIQUIDA_CERT_KEY"), "file with the private key of --cert, PEM, or LIQUIDA_CERT_KEY; the bearer key is --key-file")
	flags.StringVar(&files.CA, "ca", os.Getenv("LIQUIDA_CA"), "file with the authorities of the API's certificate, PEM, or LIQUIDA_CA; default those of the system")
	return files
}

func useCertificates(api *client.Client, files *client.Certificates) error {
	if err := api.UseCertificates(*files); err != nil {
		return fmt.Errorf("%w (--cert, --key, --ca)", err)
	}
	return nil
}

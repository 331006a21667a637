#!/bin/bash
# demo.sh LACONIC FOLDER: hash codes of 32 bits for Fashion-MNIST, learnt by four methods, compared in a table and a plot.
# `make demo` runs it. The images are those of the Debian package dataset-fashion-mnist.
set -euo pipefail
laconic=$(realpath "$1")
out=$2
data=/usr/share/datasets/fashion-mnist
start=$SECONDS

run() {
  printf '\n$ laconic %s\n' "$*"
  "$laconic" "$@"
}

mkdir -p "$out"
cd "$out"
ln -sf "$data"/{train,t10k}-images-idx3-ubyte.gz .
base=train-images-idx3-ubyte.gz
query=t10k-images-idx3-ubyte.gz

run info $base
run hash train $base -o ba.safetensors --bits 32 --workers 2 --plot training.svg
for method in itq pca lsh; do
  run hash train $base -o $method.safetensors --bits 32 --workers 2 --method $method
done
run hash eval {ba,itq,pca,lsh}.safetensors --base $base --query $query --plot retrieval.svg
run hash encode ba.safetensors $base -o codes.npy
run hash search ba.safetensors --base codes.npy --query $query -k 100 -o found.ivecs
run hash export ba.safetensors --faiss encoder.faiss --codes codes.npy --faiss-binary codes.faiss
printf '\n%d seconds. Models, codes, answers and plots are in %s:\n' $((SECONDS - start)) "$out"
ls

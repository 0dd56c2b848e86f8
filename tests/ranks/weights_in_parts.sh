# A pipeline writes its model in parts, with an index. compare and --weights read them as one: from the run, from a
# checkpoint, or by the index.
. "$ROOT/tests/ranks/lib.sh"
options="--model resnet8 --threads 1 --batch 32 --micro-batches 2 --steps 3 --eval-every never --spawn threads"
code 0 train $options --strategy single --out whole
code 0 train $options --strategy 1f1b --stages 2 --out parts
[ -e parts/model-00002-of-00002.safetensors ] && [ ! -e parts/model.safetensors ] || { ls parts; exit 1; }
for one in parts parts/model.safetensors.index.json parts/checkpoints/step-00000003; do
    code 0 "$STRETTO" compare "$one" whole
    says out 'equal'
    rm -rf again
    code 0 train $options --strategy single --steps 1 --lr 0 --weight-decay 0 --weights "$one" --out again
    says err 'of the model.s .* tensors loaded'
    ! grep -q 'keep their initial values' err || { cat err; exit 1; }
done
# a run that ended has nothing to do; started again as one rank its model is whole, and the parts are gone
code 0 train --resume --out parts
says err 'nothing to do'
code 0 train --resume --out parts --strategy single --stages 1 -n 1 --steps 4
[ -e parts/model.safetensors ] && [ ! -e parts/model-00001-of-00002.safetensors ] && [ ! -e parts/model.safetensors.index.json ] ||
    { ls parts; exit 1; }
# and the other way round
code 0 train --resume --out whole --strategy 1f1b -n 2 --stages 2 --steps 4
[ ! -e whole/model.safetensors ] && [ -e whole/model.safetensors.index.json ] || { ls whole; exit 1; }
code 0 "$STRETTO" compare whole parts
# what the index says must be so
sed 's/"fc.bias": "model-00002/"fc.bias": "model-00001/' whole/model.safetensors.index.json >whole/other.index.json
code 3 "$STRETTO" compare whole/other.index.json parts
says err 'weight_map names model-00001-of-00002.safetensors for tensor fc.bias, which is not in it'
echo '{"weight_map": {"a": "../x.safetensors"}}' >whole/other.index.json
code 3 "$STRETTO" compare whole/other.index.json parts
says err 'weight_map.a is not the name of a file beside it'
code 0 train $options --overwrite --strategy single --out whole
[ ! -e whole/model-00001-of-00002.safetensors ] || { echo "--overwrite left a part"; exit 1; }

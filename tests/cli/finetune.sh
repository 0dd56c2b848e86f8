# Weights of a vision transformer at another size of images: the patches are those of the weights, not the default of the size.
. "$ROOT/tests/cli/lib.sh"
wide="synthetic:count=32,test_count=16,size=16,channels=1,classes=10"
"$STRETTO" train --model vit-micro --steps 2 --batch 16 --threads 1 --quiet --out small 2>err || say "small: $(cat err)"
"$STRETTO" explain --model vit-micro --data $wide >out 2>err || say "explain: $(cat err)"
grep -q '16 patches of 4x4 pixels' out || say "the default of 16x16: $(grep -A 1 ^model out)"
"$STRETTO" explain --model vit-micro --data $wide --weights small >out 2>err || say "explain: $(cat err)"
tr -s ' \n' ' ' <out | grep -q '64 patches of 2x2 pixels, as in the weights' || say "with weights: $(grep -A 1 ^model out)"
"$STRETTO" explain --model vit-micro --data $wide --weights small --patch 8 >out 2>err || say "explain: $(cat err)"
grep -q '4 patches of 8x8 pixels' out || say "--patch comes first: $(grep -A 1 ^model out)"
ends 2 explain --model vit-micro --data synthetic:size=15,channels=1 --weights small
grep -q 'small has patches of 2x2 pixels, which do not divide images of 15x15' err || say "15x15: $(cat err)"
for ranks in 1 2; do
    "$STRETTO" train --model vit-micro --data $wide --weights small --steps 2 --batch 16 --threads 1 --save-every 1 -n $ranks --out wide$ranks \
        >out 2>err || say "fine-tuning on $ranks: $(cat err)"
    cat out err | grep -q 'another shape' && say "$ranks ranks: $(cat err)"
    cat out err | grep -q 'positions of 4 x 4 patches resized to 8 x 8' || say "$ranks ranks: positions: $(cat out err)"
done
grep -q '^patch: 2$' wide1/config.yml || say "config.yml: $(grep patch wide1/config.yml)"
"$STRETTO" train --out wide1 --resume --steps 3 --quiet 2>err || say "resume: $(cat err)"
# What was trained may be used at another size, too: alone, and by the folder of its run.
"$STRETTO" eval wide1 --image-size 24 --quiet 2>err || say "eval at 24x24: $(cat err)"
"$STRETTO" eval small/model.safetensors --model vit-micro --data $wide --quiet 2>err || say "eval of a file: $(cat err)"
exit $failed
